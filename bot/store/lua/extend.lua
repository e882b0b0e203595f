-- Heartbeat for everything that one process holds.   ARGV: bell, lease (ms), lane, token, …
-- Answers the tokens that are worth nothing now.
local lost = {}
for i = 3, #ARGV, 2 do
  if redis.call('HGET', state(ARGV[i]), 'token') == ARGV[i + 1] then
    extend(ARGV[i], ARGV[2])
  else
    lost[#lost + 1] = ARGV[i + 1]
  end
end
return lost
