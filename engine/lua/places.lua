-- Tells waiting requests their place when it changed enough to matter, and ends those past their deadline.
-- ARGV: the event of a passed deadline, milliseconds until anyone may run this again.
local deadline_failed, quiet_ms = unpack(ARGV)
if not redis.call('SET', 'hearth:places', 1, 'NX', 'PX', quiet_ms) then return 0 end
local now = now_ms()

local function expire(model, id)
  local deadline_at, tenant, class, prompt_tokens, tokens = unpack(redis.call('HMGET',
    request_key(id), 'deadline_at', 'tenant', 'priority', 'prompt_tokens', 'tokens'))
  deadline_at = tonumber(deadline_at or 0)
  if deadline_at == 0 or deadline_at > now then return false end
  give_up_place(model, class, tenant, id)
  append_event(id, with_usage(deadline_failed, prompt_tokens, tokens))
  end_request(id)
  return true
end

local function has_waited(id)
  local queued_at = tonumber(redis.call('HGET', request_key(id), 'queued_at') or now)
  return now - queued_at > 500
end

-- Near the front every place counts, further back a tenth of it.
local function is_news(told, position)
  if not told then return true end
  return math.abs(told - position) >= math.max(1, position / 10)
end

for _, model in ipairs(redis.call('SMEMBERS', 'hearth:queues')) do
  if redis.call('EXISTS', waiting_key(model)) == 0 then
    redis.call('SREM', 'hearth:queues', model)
  end
  local position = 0
  for _, id in ipairs(places(model)) do
    if not expire(model, id) then
      position = position + 1
      if position == 1 and has_waited(id) then begin_pace(model, now) end
      local told = tonumber(redis.call('HGET', request_key(id), 'place'))
      if is_news(told, position) then tell_place(model, id, position) end
    end
  end
end
return 1
