-- Decide an approval once.
-- KEYS: approval hash, index of open approvals
-- ARGV: version, click id, person, choice, form (JSON), now (ms), new state, kept (ms)
-- Answers gone | already | stale | expired | ok. The click that won gets ok again: it may have to be resumed.
local state = redis.call('HGET', KEYS[1], 'state')
if not state then return 'gone' end
if redis.call('HGET', KEYS[1], 'press') == ARGV[2] then return 'ok' end
if state == 'expired' then return 'expired' end
if state ~= 'open' then return 'already' end
if redis.call('HGET', KEYS[1], 'version') ~= ARGV[1] then return 'stale' end
if tonumber(redis.call('HGET', KEYS[1], 'expires_ms')) <= tonumber(ARGV[6]) then return 'expired' end
redis.call('HSET', KEYS[1], 'state', ARGV[7], 'press', ARGV[2], 'by', ARGV[3], 'choice', ARGV[4],
  'form', ARGV[5], 'decided_ms', ARGV[6])
redis.call('PEXPIRE', KEYS[1], ARGV[8])
redis.call('ZREM', KEYS[2], redis.call('HGET', KEYS[1], 'id'))
return 'ok'
