-- Accept an item once. If an owner is named, it takes an idle lane at once.
-- ARGV: bell, nonce, lane, cap, dedupe (ms), owner (or empty), lease (ms), person (or empty), credit (ms), cost (ms),
--       note (or empty), kind of record, suffix of companion, doubt (ms), body, id, alias …
-- The note, a write `entry`, is journalled when the item is accepted.
-- Answers {new} | {duplicate} | {full} | {taken, item} | {closed}. A repeated call gets its first answer again. {closed}:
-- the store is being restored, and an item accepted now would be lost.
if redis.call('HEXISTS', base .. 'life', 'restoring') == 1 then return {'closed'} end
local nonce, lane, owner, id = ARGV[2], ARGV[3], ARGV[6], ARGV[16]
for i = 16, #ARGV do
  local known = redis.call('GET', base .. 'dd:' .. ARGV[i])
  if known then
    redis.call('PEXPIRE', base .. 'dd:' .. ARGV[i], ARGV[5])  -- a write that can be confirmed (`scripts.py`)
    if known ~= nonce then return {'duplicate'} end
    if redis.call('HGET', state(lane), 'by') == nonce then return {'taken', handed(lane, 12)} end
    return {'new'}
  end
end
if redis.call('LLEN', inbox(lane)) >= tonumber(ARGV[4]) then return {'full'} end
for i = 16, #ARGV do redis.call('SET', base .. 'dd:' .. ARGV[i], nonce, 'PX', ARGV[5]) end

-- Every person has some credit. Each lane that they set to work costs a part of it, and time restores it. Credit puts a
-- lane ahead of others. So under load, a person who fills lane after lane comes after the people who do not.
local ahead = 0
if ARGV[8] ~= '' and not redis.call('ZSCORE', schedule, lane) then
  local key, credit, cost = base .. 'due:' .. ARGV[8], tonumber(ARGV[9]), tonumber(ARGV[10])
  local debt = math.max(tonumber(redis.call('GET', key) or '0') - now, 0)
  ahead = math.max(credit - debt, 0)
  debt = math.min(debt + cost, 2 * credit)
  redis.call('SET', key, whole(now + debt), 'PX', whole(debt))
end
if ARGV[11] ~= '' then write.entry(unpack(ARGV[11], 2)) end
if enqueue(lane, id, ARGV[15], ahead) then
  if owner ~= '' then
    take(lane, owner, nonce, ARGV[7])
    return {'taken', handed(lane, 12)}
  end
  ring()
end
return {'new'}
