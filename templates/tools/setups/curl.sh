curl {{ root_url }}/v1/chat/completions \
  -H "Authorization: Bearer {{ key }}" \
  -H "Content-Type: application/json" \
  -d '{"model": "{{ model.name }}", "messages": [{"role": "user", "content": "Hello!"}]}'
