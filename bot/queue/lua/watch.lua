-- Look at this partition for one process: whether it is the store that the process has seen, and what time it has.
-- ARGV: bell, id for a store that has none, tolerance (ms), silence after which a replica does not count (s), then by
-- partition: the id and the mark that the process knows.
-- Answers the store's id, its mark (which only grows), the reason for which it is held (or empty), its time (ms), and the
-- number of its server's replicas that are not silent. Then come the time at which another server took over (ms), empty
-- once that is dealt with: the new server may lack the last writes; and the server's replication id.
local life, at = base .. 'life', tonumber(string.match(base, '{q(%d+)}'))
local server, replicas = describe_server(ARGV[4])
if not at then return {'', '0', '', whole(now), replicas, '', server} end  -- of the engine's records: only that
local known_id, known_mark = ARGV[5 + 2 * at], tonumber(ARGV[6 + 2 * at])
local stored = redis.call('HMGET', life, 'id', 'mark', 'former')
local id, mark, why = stored[1], tonumber(stored[2] or '0'), nil
if not id then
  id = ARGV[2]
  redis.call('HSET', life, 'id', id)
  if known_id ~= '' then
    why = 'emptied'
    redis.call('HSET', life, 'former', known_id)
  end
elseif known_id ~= '' and known_id ~= id then
  if known_id ~= stored[3] then why = 'replaced' end
elseif mark < known_mark - tonumber(ARGV[3]) then
  why = 'restored'
end
if why and redis.call('HSETNX', life, 'held', why) == 1 then redis.call('HSET', life, 'held_ms', whole(now)) end
local former = redis.call('HGET', life, 'server')
if server ~= '' and server ~= former then
  redis.call('HSET', life, 'server', server)
  if former then redis.call('HSET', life, 'taken_over', whole(now), 'since', whole(now)) end
end
mark = math.max(now, mark + 1)
redis.call('HSET', life, 'mark', whole(mark))
local held = redis.call('HGET', life, 'held')
if not held and tonumber(redis.call('HGET', life, 'backup_until') or '0') > now then held = 'backup' end
return {id, whole(mark), held or '', whole(now), replicas, redis.call('HGET', life, 'taken_over') or '', server}
