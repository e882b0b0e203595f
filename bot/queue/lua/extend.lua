-- Heartbeat for everything that one process holds.   ARGV: bell, lease (ms), lane, token, …
-- Answers the tokens that are worth nothing now, and token and whose work shall stop for each lane of which that was
-- said: whoever did not hear it when it was told hears it here.
local lost, ending = {}, {}
for i = 3, #ARGV, 2 do
  local lane, token = ARGV[i], ARGV[i + 1]
  if redis.call('HGET', state(lane), 'token') == token then
    extend(lane, ARGV[2])
    local head = redis.call('EXISTS', stops(lane)) == 1 and redis.call('LINDEX', inbox(lane), 0)
    local whose = head and stopped(lane, (unpack_item(head))) or ''
    if whose ~= '' then
      ending[#ending + 1] = token
      ending[#ending + 1] = whose
    end
  else
    lost[#lost + 1] = token
  end
end
return {lost, ending}
