-- Applies writes: a JSON list of {name, argument, …}, every argument text or a list of texts.
local function keep(key, ttl)
  if ttl == '' then redis.call('PERSIST', key) else redis.call('PEXPIRE', key, ttl) end
end

local function trim(key, max_tokens)
  local sum = tonumber(redis.call('GET', key .. ':n') or '0')
  local length = redis.call('LLEN', key)
  while length > 1 and sum > tonumber(max_tokens) do
    sum = sum - tonumber(string.match(redis.call('LPOP', key), '^%d+'))
    length = length - 1
  end
  redis.call('SET', key .. ':n', whole(sum))
end

local write = {}

function write.set(key, value, ttl)
  if ttl == '' then redis.call('SET', key, value) else redis.call('SET', key, value, 'PX', ttl) end
end

function write.delete(key) redis.call('DEL', key) end

function write.fields(key, fields, ttl)
  for i = 1, #fields, 2 do redis.call('HSET', key, fields[i], fields[i + 1]) end
  keep(key, ttl)
end

function write.push(key, values, ttl, max_tokens)
  for _, value in ipairs(values) do
    redis.call('RPUSH', key, value)
    if max_tokens ~= '' then redis.call('INCRBY', key .. ':n', string.match(value, '^%d+')) end
  end
  if max_tokens ~= '' then trim(key, max_tokens) end
  keep(key, ttl)
  if max_tokens ~= '' then keep(key .. ':n', ttl) end
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

-- Without the cap: what we tell ourselves is never turned away.
function write.put(lane, id, body)
  if redis.call('SET', base .. 'dd:' .. id, '1', 'NX', 'PX', '86400000') then enqueue(lane, id, body) end
end

function write.timer(id, lane, due, body)
  redis.call('ZADD', base .. 't', due, id)
  redis.call('HSET', base .. 'td', id, whole(#lane) .. '|' .. lane .. body)
end

function write.untimer(id)
  redis.call('ZREM', base .. 't', id)
  redis.call('HDEL', base .. 'td', id)
end

local function apply(json)
  for _, op in ipairs(cjson.decode(json)) do write[op[1]](unpack(op, 2)) end
end
