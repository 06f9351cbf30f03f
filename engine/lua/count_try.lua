-- intake: one more try of this request. Returns how many; 0 when Redis has forgotten it meanwhile, for
-- a hash made here would look like a request that is known.
local id = unpack(ARGV)
if redis.call('EXISTS', request_key(id)) == 0 then return 0 end
return redis.call('HINCRBY', request_key(id), 'intake_tries', 1)
