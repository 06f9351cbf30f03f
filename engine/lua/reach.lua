-- What an engine can serve. ARGV: engine, (model, tokens of the longest row it has room for; 0: it cannot be loaded there)...
local engine, now = ARGV[1], now_ms()
for i = 2, #ARGV, 2 do
  local key = reach_key(ARGV[i])
  tell(key, engine, ARGV[i + 1], 0, now + REACH_MS)
  redis.call('PEXPIRE', key, REACH_MS)
  redis.call('PEXPIRE', room_key(ARGV[i]), REACH_MS)
  local holds = told(key, now)
  for _, name in ipairs(redis.call('HKEYS', key)) do
    if not holds[name] then redis.call('HDEL', key, name) end
  end
end
