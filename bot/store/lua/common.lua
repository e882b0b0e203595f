-- In front of every script. KEYS[1] is the partition's schedule `<prefix>:{qNN}:z`; every other key of the
-- partition is named after it. ARGV[1] is the bell's key, or empty (cluster).
local clock = redis.call('TIME')
local now = tonumber(clock[1]) * 1000 + math.floor(tonumber(clock[2]) / 1000)
local schedule = KEYS[1]
local base = string.sub(schedule, 1, -2)

local function whole(number) return string.format('%.0f', number) end

local function inbox(lane) return base .. 'in:' .. lane end

local function state(lane) return base .. 'st:' .. lane end

-- A hint that this partition has work. Bounded, since nobody may be listening.
local function ring()
  if ARGV[1] ~= '' and redis.call('LLEN', ARGV[1]) < 256 then
    redis.call('RPUSH', ARGV[1], string.match(base, '{q(%d+)}'))
  end
end

-- The next byte position comes out of the pattern, so an id may hold any character.
local function unpack_item(raw)
  local at, length, start = string.match(raw, '^(%d+)|(%d+)|()')
  local stop = start + tonumber(length)
  return at, string.sub(raw, start, stop - 1), string.sub(raw, stop)
end

local function enqueue(lane, id, body)
  redis.call('RPUSH', inbox(lane), whole(now) .. '|' .. whole(#id) .. '|' .. id .. body)
  if redis.call('ZADD', schedule, 'NX', whole(now), lane) == 1 then ring() end
end

-- Does this token still own the lane, with this item at its head?
local function holds(lane, token, id)
  if redis.call('HGET', state(lane), 'token') ~= token then return false end
  local head = redis.call('LINDEX', inbox(lane), 0)
  if not head then return false end
  local _, found = unpack_item(head)
  return found == id
end

-- 1 when a stop was noted after the item had been put.
local function stopped(lane, put_at)
  local noted = redis.call('GET', base .. 'stop:' .. lane)
  if noted and tonumber(string.match(noted, '^%d+')) > tonumber(put_at) then return 1 end
  return 0
end

-- What a holder is told about the head of its lane.
local function handed(lane)
  local at, id, body = unpack_item(redis.call('LINDEX', inbox(lane), 0))
  local known = redis.call('HMGET', state(lane), 'token', 'tries', 'error')
  return {lane, known[1], tonumber(known[2]), id, body, at, known[3] or '', stopped(lane, at)}
end

local function extend(lane, lease_ms) redis.call('ZADD', schedule, 'XX', whole(now + tonumber(lease_ms)), lane) end
