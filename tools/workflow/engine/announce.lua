-- A notice beside a change; one that waits already keeps its place.
-- KEYS: 1 numbers, 2 outbox order, 3 outbox bodies; ARGV: 1 id, 2 body
if redis.call('HSETNX', KEYS[3], ARGV[1], ARGV[2]) == 1 then
  redis.call('ZADD', KEYS[2], redis.call('HINCRBY', KEYS[1], 'outbox', 1), ARGV[1])
end
