-- Precedes every script. KEYS[1] is the partition's schedule `<prefix>:{qNN}:z`; every other key of the
-- partition is named after it. ARGV[1] is the bell's key, or empty (cluster).
local clock = redis.call('TIME')
local now = tonumber(clock[1]) * 1000 + math.floor(tonumber(clock[2]) / 1000)
local schedule = KEYS[1]
local base = string.sub(schedule, 1, -2)

local function whole(number) return string.format('%.0f', number) end

local function inbox(lane) return base .. 'in:' .. lane end

local function state(lane) return base .. 'st:' .. lane end

-- Send a hint that this partition has work. The list is bounded, since nobody may be listening.
local unheard = 0
local function ring()
  if ARGV[1] == '' then
    unheard = 1
  elseif redis.call('LLEN', ARGV[1]) < 256 then
    redis.call('RPUSH', ARGV[1], string.match(base, '{q(%d+)}'))
  end
end

-- Returns the replication id of this server (empty if it says none), and the number of its replicas that are not silent:
-- those that have answered within so many seconds.
local function describe_server(silent)
  local replication, replicas = tostring(redis.pcall('INFO', 'replication')), 0
  for replica in string.gmatch(replication, 'state=online[^\r\n]*') do
    if tonumber(string.match(replica, 'lag=(%d+)') or '0') < tonumber(silent) then replicas = replicas + 1 end
  end
  return string.match(replication, 'master_replid:(%w+)') or '', replicas
end

-- Returns the answer of a script. A caller that waits for confirmation also gets the server and its number of replicas.
-- Without a bell, the answer also says whether the caller has to ring it.
local function told(answer)
  if silent_s then answer = {answer, describe_server(silent_s)} end
  if ARGV[1] == '' then return {unheard, answer} end
  return answer
end

-- Split an item into time, id and body. The pattern yields the byte position of the id, so an id may hold any character.
local function unpack_item(raw)
  local at, length, start = string.match(raw, '^(%d+)|(%d+)|()')
  local stop = start + tonumber(length)
  return at, string.sub(raw, start, stop - 1), string.sub(raw, stop)
end

-- Append an item to its lane. Returns true if the lane was idle and is due now. `ahead` (ms): the lane comes before
-- lanes that have waited for less.
local function enqueue(lane, id, body, ahead)
  redis.call('RPUSH', inbox(lane), whole(now) .. '|' .. whole(#id) .. '|' .. id .. body)
  return redis.call('ZADD', schedule, 'NX', whole(now - (ahead or 0)), lane) == 1
end

local function extend(lane, lease_ms) redis.call('ZADD', schedule, whole(now + tonumber(lease_ms)), lane) end

-- Key of the hash of stops: person (or *) -> time|timestamp of the stop.
local function stops(lane) return base .. 'stops:' .. lane end

-- Persons (or *) whose work shall stop, because of a stop noted after the item was enqueued. Separated by blanks.
local function stopped(lane, put_at)
  local noted, whose = redis.call('HGETALL', stops(lane)), {}
  for i = 1, #noted, 2 do
    if tonumber(string.match(noted[i + 1], '^%d+')) > tonumber(put_at) then whose[#whose + 1] = noted[i] end
  end
  return table.concat(whose, ' ')
end

-- Returns how long ago another server took over (ms), if an item was put before that, or so soon after it (ms) that it may
-- follow from such an item: this server may not know that it was begun. Otherwise -1.
local function measure_doubt(put_at, doubt)
  local known, since = unpack(redis.call('HMGET', base .. 'life', 'server', 'since'))
  local server = describe_server(0)
  if known and server ~= '' and server ~= known then return 0 end  -- nobody has looked yet
  return since and tonumber(put_at) <= since + tonumber(doubt) and now - since or -1
end

-- Whether this token still owns the lane. A token tells when the lane was taken. If that was before another server took
-- over, and the lease has run out, somebody else may have had the lane there.
local function owns(lane, token)
  if redis.call('HGET', state(lane), 'token') ~= token then return false end
  return tonumber(redis.call('ZSCORE', schedule, lane) or now) >= now or measure_doubt(token, 0) < 0
end

-- Whether this token still owns the lane, with this item (`time@id`: a timer puts an id again) at its head and as many
-- checkpoints of it as `written`. A server that has taken over may lack some; the lane is due then. Returns the time of
-- the item's enqueue, or false.
local function holds(lane, token, item, written)
  if not owns(lane, token) then return false end
  if redis.call('SCARD', base .. 'ck:' .. lane) < tonumber(written) then
    extend(lane, 0)
    return false
  end
  local head = redis.call('LINDEX', inbox(lane), 0)
  if not head then return false end
  local at, id = unpack_item(head)
  return at .. '@' .. id == item and at
end

-- Describe the head of a lane to its holder. ARGV from i on: kind of record, suffix of companion, doubt (ms). The lane's
-- record of this kind comes along. If there is one, the answer also says whether an item waits in the lane's companion,
-- the lane with this suffix.
local function handed(lane, i)
  local at, id, body = unpack_item(redis.call('LINDEX', inbox(lane), 0))
  local known = redis.call('HMGET', state(lane), 'token', 'tries', 'error')
  local record = redis.call('HGETALL', base .. ARGV[i] .. ':' .. lane)
  local waits = #record > 0 and redis.call('EXISTS', inbox(lane .. ARGV[i + 1])) or 0
  local doubt = measure_doubt(at, ARGV[i + 2])
  return {lane, known[1], tonumber(known[2]), id, body, at, known[3] or '', stopped(lane, at), record, waits, doubt}
end

-- Tokens always grow, even when a failover has rolled the counter back.
local function next_token()
  local last = tonumber(redis.call('GET', base .. 'ep') or '0')
  local token = whole(math.max(last + 1, now))
  redis.call('SET', base .. 'ep', token)
  return token
end

-- Give a scheduled lane to an owner, by the call of this nonce. Returns the token.
local function take(lane, owner, nonce, lease_ms)
  local st, token = state(lane), next_token()
  if redis.call('HEXISTS', st, 'token') == 1 then redis.call('HSET', st, 'error', 'worker lost') end
  redis.call('HINCRBY', st, 'tries', 1)
  redis.call('HSET', st, 'token', token, 'owner', owner, 'by', nonce)
  redis.call('PERSIST', st)  -- a process of an older version lets it expire
  redis.call('DEL', base .. 'ck:' .. lane)
  extend(lane, lease_ms)
  return token
end

-- Reserve the next slot of a rate (GCRA), once per nonce. Returns the ms until it. Returns -1 and reserves nothing if
-- that is more than `most` ('': no limit).
local function reserve(key, nonce, spacing, burst, most)
  local known = redis.call('HMGET', key, 'next', 'nonce', 'slot')
  if known[2] == nonce then return math.max(0, tonumber(known[3]) - now) end
  local ms, following = tonumber(spacing), tonumber(known[1] or '0')
  local slack = (tonumber(burst) - 1) * ms
  local slot = math.max(now, following - slack)
  if most ~= '' and slot - now > tonumber(most) then return -1 end
  following = math.max(following, now) + ms
  redis.call('HSET', key, 'next', whole(following), 'slack', whole(slack), 'nonce', nonce, 'slot', whole(slot))
  redis.call('PEXPIRE', key, whole(math.max(1000, following - now + 1000)))
  return slot - now
end
