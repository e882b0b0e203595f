-- The writes of `writes.py`: each operation is a function, whose arguments are the fields of the class there. A number is
-- a text, None an empty one, and a mapping a list of names and values in turn.
local function keep(key, ttl)
  if ttl == '' then redis.call('PERSIST', key) else redis.call('PEXPIRE', key, ttl) end
end

local write = {}

function write.set(key, value, ttl)
  if ttl == '' then redis.call('SET', key, value) else redis.call('SET', key, value, 'PX', ttl) end
end

function write.delete(key) redis.call('DEL', key) end

-- The writes behind this one belong to the partition of this schedule.
function write.at(key) schedule, base = key, string.sub(key, 1, -2) end

function write.unfield(key, field) redis.call('HDEL', key, field) end

function write.push(key, values, ttl, most)
  redis.call('RPUSH', key, unpack(values))
  if most ~= '' then redis.call('LTRIM', key, -tonumber(most), -1) end
  keep(key, ttl)
end

-- Returns the tokens of a remembered value, and the sum up to it.
local function counted(raw)
  local tokens, sum = string.match(raw, '^(%d+):(%d+)|')
  return tonumber(tokens), tonumber(sum)
end

-- Drop the oldest values until the rest and the summary, if any, cost no more than `most` tokens. The newest value
-- stays. The summary is put in front.
local function fit(key, summary, most)
  local last = redis.call('LINDEX', key, -1)
  local sum = last and select(2, counted(last)) or 0
  local room = tonumber(most) - (summary and counted(summary) or 0)
  while redis.call('LLEN', key) > 1 do
    local tokens, upto = counted(redis.call('LINDEX', key, 0))
    if sum - upto + tokens <= room then break end
    redis.call('LPOP', key)
  end
  if summary then redis.call('LPUSH', key, summary) end
end

-- Append values `tokens|text`, stored as `tokens:sum|text`. The sum runs over everything ever pushed, so the first and
-- the last value show how many tokens the list holds, without another key. A summary (`tokens:sum|=…`, with the sum of
-- the last turn that it covers) is always the first value: it counts, and it stays.
function write.remember(key, values, most, ttl)
  local last, first = redis.call('LINDEX', key, -1), redis.call('LINDEX', key, 0)
  local sum = last and select(2, counted(last)) or 0
  local summary = first and string.match(first, '^%d+:%d+|=') and redis.call('LPOP', key)
  for _, value in ipairs(values) do
    local tokens, start = string.match(value, '^(%d+)|()')
    sum = sum + tonumber(tokens)
    redis.call('RPUSH', key, tokens .. ':' .. whole(sum) .. '|' .. string.sub(value, start))
  end
  fit(key, summary, most)
  keep(key, ttl)
end

-- Add whole numbers, passed as text because Lua's own are exact only up to 2^53. A full counter stays full.
function write.count(key, added, ttl)
  for i = 1, #added, 2 do redis.pcall('HINCRBY', key, added[i], added[i + 1]) end
  keep(key, ttl)
end

-- Replace the first values of such a list, `before`, by others, a summary first, if they are still there and newer ones
-- follow. Some of them may have been trimmed, from the left, behind a summary. Otherwise nothing is written, and the
-- answer is `changed`.
function write.replace(key, before, after, most)
  local last, dropped = #before, 0
  local there = redis.call('LRANGE', key, 0, last - 1)
  for i, value in ipairs(there) do
    if value == before[last] then dropped = last - i end
  end
  for i = 1, last - dropped do
    local same = there[i] == before[i + dropped] or (i == 1 and there[1] == before[1])
    if not same then return 'changed' end
  end
  if redis.call('LLEN', key) <= last - dropped then return 'changed' end
  redis.call('LTRIM', key, last - dropped, -1)
  for i = #after, 2, -1 do redis.call('LPUSH', key, after[i]) end
  fit(key, after[1], most)
end

function write.member(key, member, score, ttl)
  redis.call('ZADD', key, score, member)
  keep(key, ttl)
end

function write.unmember(key, member) redis.call('ZREM', key, member) end

function write.entry(key, fields, max_age)
  if max_age == '' then
    redis.call('XADD', key, '*', unpack(fields))
  else
    redis.call('XADD', key, 'MINID', '~', whole(math.max(0, now - tonumber(max_age))), '*', unpack(fields))
  end
end

-- Enqueue an item without the cap: the bot's own work is never refused.
-- `idle`: only if the lane has no items.
function write.put(lane, id, body, idle)
  if idle and redis.call('EXISTS', inbox(lane)) == 1 then return end
  if redis.call('SET', base .. 'dd:' .. id, '1', 'NX', 'PX', '86400000') and enqueue(lane, id, body) then ring() end
end

function write.timer(lane, id, due, body)
  redis.call('ZADD', base .. 't', due, id)
  redis.call('HSET', base .. 'td', id, whole(#lane) .. '|' .. lane .. body)
end

function write.untimer(_, id)
  redis.call('ZREM', base .. 't', id)
  redis.call('HDEL', base .. 'td', id)
end

-- Refuse with `begun` what some process remembers to have begun on a server that is gone. Right after a takeover,
-- processes still lay that down: refuse with the time that this goes on for (ms).
function write.begin(key, laying_down)
  if redis.call('EXISTS', key) == 1 then return 'begun' end
  local left = tonumber(laying_down) - measure_doubt(0, 0)
  if left > 0 and left <= tonumber(laying_down) then return whole(left) end
end

local tests = {
  ['is'] = function(stored, value) return stored == value end,
  ['is not'] = function(stored, value) return stored ~= value end,
  ['at most'] = function(stored, value) return tonumber(stored) <= tonumber(value) end,
}

-- Set fields of a hash as `rules` say, each with field, test, value and verdict. A missing field is empty. The first rule
-- that holds decides: `write`, `skip`, or the code with which this write refuses. If none holds, the fields are set.
function write.fields(key, fields, ttl, rules)
  for _, rule in ipairs(rules) do
    local field, test, value, verdict = unpack(rule)
    if tests[test](redis.call('HGET', key, field) or '', value) then
      if verdict == 'skip' then return nil end
      if verdict ~= 'write' then return verdict end
      break
    end
  end
  redis.call('HSET', key, unpack(fields))
  keep(key, ttl)
end

-- Apply the writes from this argument on, in their order. A write that refuses ends the call with its code.
local function apply(first)
  local home = schedule
  for i = first, #ARGV do
    local why = write[ARGV[i][1]](unpack(ARGV[i], 2))
    if why then return why end
  end
  write.at(home)
end
