-- Writes outside a lease, once per nonce.   ARGV: bell, nonce, writes
local mark = base .. 'once:' .. ARGV[2]
if redis.call('EXISTS', mark) == 1 then return 0 end
apply(ARGV[3])
redis.call('SET', mark, '1', 'PX', 600000)
return 1
