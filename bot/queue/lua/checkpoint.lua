-- Write once per (token, item, seq), extend the lease, and reserve a slot of a rate in the same call.
-- ARGV: bell, lane, token, item, written, seq, lease (ms), slot (key, or empty), spacing (ms), burst, most (ms), write …
-- Answers {lost} | {refused, code} | {ok, wait (ms; -1: too long, or no slot requested), persons whose work shall stop}.
local lane, seq = ARGV[2], ARGV[6]
local put_at = holds(lane, ARGV[3], ARGV[4], ARGV[5])
if not put_at then return {'lost'} end
local done = base .. 'ck:' .. lane
if redis.call('SISMEMBER', done, seq) == 0 then
  local why = apply(12)
  if why then return {'refused', why} end
  redis.call('SADD', done, seq)
  redis.call('PEXPIRE', done, 86400000)
end
extend(lane, ARGV[7])
local wait = -1
if ARGV[8] ~= '' then wait = reserve(ARGV[8], ARGV[3] .. '@' .. seq, ARGV[9], ARGV[10], ARGV[11]) end
return {'ok', wait, stopped(lane, put_at)}
