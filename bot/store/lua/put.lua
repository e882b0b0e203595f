-- Accept an item once.   ARGV: bell, nonce, lane, cap, dedupe (ms), body, id, alias …
-- Answers new | duplicate | full; the call that put it gets `new` again.
for i = 7, #ARGV do
  local known = redis.call('GET', base .. 'dd:' .. ARGV[i])
  if known then return known == ARGV[2] and 'new' or 'duplicate' end
end
if redis.call('LLEN', inbox(ARGV[3])) >= tonumber(ARGV[4]) then return 'full' end
for i = 7, #ARGV do redis.call('SET', base .. 'dd:' .. ARGV[i], ARGV[2], 'PX', ARGV[5]) end
enqueue(ARGV[3], ARGV[7], ARGV[6])
return 'new'
