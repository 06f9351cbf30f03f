-- One step's events of all rows, fenced. ARGV, for each row:
--   id, fence, seq of the first event, tokens delivered after the last one, what its prompt cost if it ends the
--   request (-1 if not), n, n events
-- Returns per row the seq that Redis expects next, or FORGOTTEN, or VOID. Sent again, it does nothing twice.
local replies = {}

local function emit(id, fence, first_seq, tokens, prompt_cost, first, last)
  local is_terminal = prompt_cost >= 0
  local state, stored_fence, seq, born, owner, tokens_at_crash, crashes = unpack(redis.call('HMGET',
    request_key(id), 'state', 'fence', 'seq', 'born', 'owner', 'tokens_at_crash', 'crashes'))
  if state == 'ended' and tonumber(stored_fence or 0) == fence then return tonumber(seq) end
  local verdict = standing(state, stored_fence, fence)
  if verdict ~= HELD then return verdict end
  seq = tonumber(seq)
  if seq < first_seq or seq >= first_seq + last - first + 1 then return seq end
  for i = first + seq - first_seq, last do
    seq = seq + 1
    redis.call('XADD', events_key(id), seq .. '-' .. born, 'e', ARGV[i])
  end
  redis.call('HSET', request_key(id), 'seq', seq, 'tokens', tokens)
  if tonumber(crashes) > 0 and (is_terminal or is_proven(tokens, tokens_at_crash)) then
    clear_suspect(owner, id)
  end
  if is_terminal then
    settle(id, prompt_cost + tokens)
    end_request(id)
  end
  return seq
end

local i = 1
while i <= #ARGV do
  local last = i + 5 + ARGV[i + 5]
  table.insert(replies, emit(ARGV[i], tonumber(ARGV[i + 1]), tonumber(ARGV[i + 2]),
    tonumber(ARGV[i + 3]), tonumber(ARGV[i + 4]), i + 6, last))
  i = last + 1
end
return replies
