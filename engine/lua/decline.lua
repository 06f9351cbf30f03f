-- An engine finds that it cannot serve what it took. ARGV: engine, id, fence.
-- Returns 1: it waits for another that can; else its standing: HELD where there is none.
local GIVEN_BACK = 1
local engine, id, fence = unpack(ARGV)
local now = now_ms()
local state, stored_fence, model, least, tokens, declined = unpack(redis.call('HMGET', request_key(id),
  'state', 'fence', 'model', 'least_tokens', 'tokens', 'declined'))
local verdict = standing(state, stored_fence, tonumber(fence))
if verdict ~= HELD then return verdict end

declined = declined and declined .. ' ' .. engine or engine
local reach = told(reach_key(model), now)
if not is_in_reach(reach, (least or 1) + tokens, declined) then return HELD end
redis.call('ZREM', 'hearth:leases', id)
redis.call('HSET', request_key(id), 'declined', declined, 'fence', next_fence(id, now), 'state', 'queued')
clear_suspect(engine, id)
push_back(model, id, false)
return GIVEN_BACK
