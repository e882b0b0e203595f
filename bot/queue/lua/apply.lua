-- Apply writes outside a lease, once per nonce.   ARGV: bell, nonce, write …   Answers ok, or a refused write's code.
-- A repeated call writes, too, so that its confirmation can be waited for (`scripts.py`).
local mark = base .. 'once:' .. ARGV[2]
if redis.call('PEXPIRE', mark, 600000) == 1 then return 'ok' end
local why = apply(3)
if why then return why end
redis.call('SET', mark, '1', 'PX', 600000)
return 'ok'
