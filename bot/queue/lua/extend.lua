-- Extend all leases of one process (the heartbeat).   ARGV: bell, lease (ms), lane, token, …
-- Answers {lost tokens, pairs of token and persons whose work shall stop}. The pairs reach a holder that missed the
-- announcement of a stop.
local lost, ending = {}, {}
for i = 3, #ARGV, 2 do
  local lane, token = ARGV[i], ARGV[i + 1]
  if owns(lane, token) then
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
