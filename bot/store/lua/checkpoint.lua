-- Write once per (token, item, seq) and extend the lease.   ARGV: bell, lane, token, id, seq, lease (ms), writes
-- Answers lost | stop | ok.
local lane = ARGV[2]
if not holds(lane, ARGV[3], ARGV[4]) then return 'lost' end
local done = base .. 'ck:' .. lane
if redis.call('SISMEMBER', done, ARGV[5]) == 0 then
  apply(ARGV[7])
  redis.call('SADD', done, ARGV[5])
  redis.call('PEXPIRE', done, 86400000)
end
extend(lane, ARGV[6])
local put_at = unpack_item(redis.call('LINDEX', inbox(lane), 0))
return stopped(lane, put_at) == 1 and 'stop' or 'ok'
