-- Take lanes that need attention: ready, backed off long enough, or held by a process whose lease ran out.
-- ARGV: bell, nonce, owner, lease (ms), room, kind of record, suffix of companion, doubt (ms).
-- Answers the taken lanes, each as `handed` describes it.
local mark = base .. 'cl:' .. ARGV[2]
local before = redis.call('GET', mark)
local taken, out = {}, {}
if before then
  for _, pair in ipairs(cjson.decode(before)) do
    if redis.call('HGET', state(pair[1]), 'token') == pair[2] then out[#out + 1] = handed(pair[1], ARGV[6], ARGV[7]) end
  end
  return out
end
-- Items that were put before another server took over, or so soon after it (`DOUBT_MS`), may have been begun, or follow
-- from such an item, and this server may not know it. Returns the time up to which that holds (ms).
local function find_end_of_doubt()
  local known = redis.call('HMGET', base .. 'life', 'server', 'since')
  local server = string.match(tostring(redis.pcall('INFO', 'replication')), 'master_replid:(%w+)')
  if server and known[1] and server ~= known[1] then return now end
  return known[2] and tonumber(known[2]) + tonumber(ARGV[8]) or 0
end

local end_of_doubt
for _, lane in ipairs(redis.call('ZRANGEBYSCORE', schedule, '-inf', whole(now), 'LIMIT', 0, ARGV[5])) do
  if redis.call('EXISTS', inbox(lane)) == 0 then
    redis.call('ZREM', schedule, lane)
    redis.call('DEL', state(lane))
  else
    end_of_doubt = end_of_doubt or find_end_of_doubt()
    if tonumber((unpack_item(redis.call('LINDEX', inbox(lane), 0)))) <= end_of_doubt then
      redis.call('HSET', state(lane), 'error', 'taken over')
    end
    taken[#taken + 1] = {lane, take(lane, ARGV[3], ARGV[2], ARGV[4])}
    out[#out + 1] = handed(lane, ARGV[6], ARGV[7])
  end
end
if #taken > 0 then redis.call('SET', mark, cjson.encode(taken), 'PX', ARGV[4]) end
return out
