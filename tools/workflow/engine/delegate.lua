-- Somebody stands in, if the person's delegations are still those that were read.
-- KEYS: 1 away, 2 deputy, 3 timers; ARGV: 1 id, 2 body, 3 timer, 4 its time (ms), 5… ids of those that were read
-- Gives 1 if it is kept.
if redis.call('HLEN', KEYS[1]) ~= #ARGV - 4 then return 0 end
for n = 5, #ARGV do
  if redis.call('HEXISTS', KEYS[1], ARGV[n]) == 0 then return 0 end
end
redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])
redis.call('HSET', KEYS[2], ARGV[1], ARGV[2])
redis.call('ZADD', KEYS[3], ARGV[4], ARGV[3])
return 1
