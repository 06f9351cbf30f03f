"""How Hearth is used: API keys, clients, streaming, tools, thinking and the chat page."""

from __future__ import annotations

from engine.demo.corpus.topics import Topic

_OPENAI = '''Install the openai package, then point it at Hearth:

```python
from openai import OpenAI

client = OpenAI(base_url="http://127.0.0.1:8000/v1", api_key="sk-hearth-...")
answer = client.chat.completions.create(
    model="hearth-demo",
    messages=[{"role": "user", "content": "Hello, who are you?"}],
)
print(answer.choices[0].message.content)
```

Put your own API key in place of `sk-hearth-...`.'''
_STREAM = '''Pass `stream=True` and read the pieces as they come:

```python
stream = client.chat.completions.create(
    model="hearth-demo",
    messages=[{"role": "user", "content": "Tell me a story."}],
    stream=True,
)
for chunk in stream:
    print(chunk.choices[0].delta.content or "", end="")
```'''
_CURL = '''Send a POST request with your key:

```bash
curl http://127.0.0.1:8000/v1/chat/completions \\
  -H "Authorization: Bearer sk-hearth-..." \\
  -H "Content-Type: application/json" \\
  -d '{"model": "hearth-demo", "messages": [{"role": "user", "content": "Hello"}]}'
```'''

TOPICS = (
    Topic(
        weight=3,
        about=("API keys", "my API key", "an API key", "creating API keys", "keys", "access keys"),
        questions=(
            "How do I {get|create|make|obtain|generate|receive} {an|my|a new} {API |}key?", "Where {do|can} I {get|find|create|make} {an|my} API key?",
            "How can I {get|create|make} an API key?", "I need an API key.", "Give me an API key.", "Can I have an API key?", "What is an API key?",
            "How do API keys work?", "Where are my API keys?", "How do I get access to the API?", "Create {a|an API} key.", "How many keys can I have?",
            "I {would like|want} to use the API, how do I get a key?", "What do I need to use the API?", "How do my scripts {sign in|log in|authenticate}?",
        ),
        answers=(
            "Open your account page, choose **API keys** and create a key with a name. The key starts with `sk-hearth-` and is shown only "
            "once, so copy it at once and keep it secret. You can revoke it there at any time.",
        ),
    ),
    Topic(
        about=("revoking a key", "a lost API key", "lost keys"),
        questions=(
            "How do I {revoke|delete|remove|cancel} {an|my} API key?", "I lost my API key.", "What if my key is {stolen|lost|leaked}?", "Can I see my key again?",
            "My API key was {leaked|stolen}.", "How do I replace my key?", "I forgot my API key.",
        ),
        answers=(
            "Open **API keys** on your account page and revoke the key there; it stops working at once. A key cannot be shown again, because "
            "Hearth keeps only a hash of it. Simply create a new one.",
        ),
    ),
    Topic(
        about=("the key command", "create_api_key"),
        questions=(
            "How do I create a key {on|from} the command line?", "Is there a command for API keys?", "How can a script create an API key?", "Make a key in the terminal.",
        ),
        answers=(
            "Use the management command:\n\n```bash\npython manage.py create_api_key you@example.com my-script\n```\n\nIts last line is the key.",
        ),
    ),
    Topic(
        weight=3,
        about=("the Python client", "the openai package", "calling the API from Python", "using the API with Python"),
        questions=(
            "{Show me|Tell me|Explain} how {to call|to use|I call|I use} the API {from|in|with} Python.", "How do I {call|use} {the API|Hearth|you} {from|in|with} Python?",
            "How do I use the openai {package|client|library}?", "{Give|Show} me {a|some} Python {example|code|script|sample}{| for the API}.", "How do I call you from a {script|program}?",
            "Can I use the OpenAI {client|package|SDK}{| with Hearth}?", "Write Python code that calls the API.", "Python example please.", "How do I use the API?",
            "How can my {script|program|code} talk to {you|Hearth|the model}?", "Is Hearth compatible with OpenAI?", "Show me {an|the} {example|code} of the OpenAI client.",
            "I want to call Hearth from my Python program.", "What does the code for an API call look like?",
        ),
        answers=(_OPENAI,),
    ),
    Topic(
        about=("streaming", "streaming answers", "stream=True"),
        questions=(
            "How do I stream {answers|an answer|the answer|tokens}{| with Python}?", "Does Hearth {support streaming|stream}?", "Show me {a|the} streaming {example|code}.",
            "How do I get the answer token by token?", "Can I {stream|get} the answer piece by piece?",
        ),
        answers=(_STREAM,),
    ),
    Topic(
        about=("curl", "calling the API with curl", "the HTTP API"),
        questions=(
            "How do I {call|use} the API {with|from} {curl|the shell|bash|the command line}?", "{Give|Show} me a curl {example|command}.", "Can I use curl?", "How do I send a request with curl?",
            "What is the HTTP request?", "curl example",
        ),
        answers=(_CURL,),
    ),
    Topic(
        about=("the endpoints", "the REST API", "the API", "the API documentation", "the API reference"),
        questions=(
            "Which {endpoints|routes|URLs} {are there|does the API have|does Hearth have}?", "Where is the API {documentation|reference}?", "What does the API offer?",
            "What is the base URL?", "Is there an OpenAPI {schema|file}?", "Where can I read the API docs?",
        ),
        answers=(
            "The API lives under `/v1`:\n\n| Route | Use |\n| --- | --- |\n| `POST /v1/chat/completions` | chat, streaming or not |\n| `GET /v1/models` | list of models |\n"
            "| `/v1/docs` | documentation |\n\nSend your key as `Authorization: Bearer sk-hearth-...`.",
        ),
    ),
    Topic(
        about=("the API errors", "error codes"),
        questions=(
            "What {does|is} error {401|403|404|429|503}{| mean}?", "Why do I get an error?", "What do the {error|status} codes mean?", "Why is my key refused?", "I get a 401.",
        ),
        answers=(
            "The usual errors are:\n\n- **401**: the key is missing, wrong or revoked\n- **404**: the model is unknown\n- **400**: a bad parameter or a prompt that is too long\n"
            "- **429**: a limit is reached, try again later\n- **503**: the engine is not ready",
        ),
    ),
    Topic(
        about=("tools", "tool calls", "tool calling", "function calling"),
        questions=(
            "Can you {call|use} {tools|functions}?", "What is {tool|function} calling?", "How do tools work?", "How do I give you {a tool|tools}?", "Does Hearth support {tools|function calling}?",
        ),
        answers=(
            "Yes, I can call tools. Send a list of `tools` with their names and parameters in your request. When one fits the question, I answer "
            "with a tool call; your program runs it and sends me the result.",
        ),
    ),
    Topic(
        about=("thinking", "the thinking mode", "reasoning", "enable_thinking"),
        questions=(
            "What is thinking{| mode}?", "How do I turn {on|off} thinking?", "Can you think?", "What does the thinking {switch|option|mode} do?", "How does reasoning work?", "Do you support reasoning?",
        ),
        answers=(
            "When thinking is turned on, I first write short steps and then the answer. The page shows the steps apart from the answer. Thinking is off unless "
            "you turn it on.",
        ),
    ),
    Topic(
        about=("temperature", "sampling", "top-p", "the seed"),
        questions=(
            "What is {temperature|top-p|top-k|a seed|sampling}?", "What does the {temperature|seed} do?", "How do I get the same answer {twice|again|every time}?", "Which temperature should I use?",
        ),
        answers=(
            "The temperature says how freely the next word is chosen. At 0 you always get the most likely words; higher values give more variety. With the "
            "same seed you get the same answer again.",
        ),
    ),
    Topic(
        about=("tokens", "a token", "tokens per second", "TTFT", "the time to first token"),
        questions=(
            "What is a token?", "What are tokens?", "What is TTFT?", "What does tokens per second mean?", "How fast are you?", "What is the time to first token?", "How fast is Hearth?",
        ),
        answers=(
            "A token is a small piece of text, often a word or a part of one. Under each answer the page shows the time to the first token, the tokens per second, "
            "and how many tokens were read, cached and written.",
        ),
    ),
    Topic(
        about=("conversations", "my conversations", "the chat page", "renaming conversations", "the conversation list"),
        questions=(
            "How do I {delete|rename|find|export|start|pin} a {conversation|chat}?", "Where are my {old |}{conversations|chats}?", "How do I start {over|again|a new chat}?", "Can I {rename|delete|export} {my|a} {chat|conversation}?",
            "What can the chat page do?", "How do conversations work?",
        ),
        answers=(
            "The list at the side of the page holds your conversations. You can start a new one there, rename, pin, export or delete it. You can also edit a "
            "question or ask for another answer; the old one is kept.",
        ),
    ),
    Topic(
        about=("stopping an answer", "the stop button"),
        questions=(
            "How do I {stop|cancel|end|interrupt} {an answer|you|the answer|a request}?", "Is there a stop button?", "Can I stop you?", "What does the stop button do?", "How do I make you stop writing?",
        ),
        answers=(
            "Press the stop button, and the answer ends at once. The text so far is kept, and the engine is free for the next request.",
        ),
    ),
    Topic(
        about=("my password", "changing the password", "my account", "signing in"),
        questions=(
            "How do I change my password?", "I forgot my password.", "Where is my account page?", "How do I sign {in|out}?", "How do I log {in|out}?", "Can I change my {name|password|e-mail}?",
        ),
        answers=(
            "Open the account menu: there you can change your password, look after your API keys and sign out. If you cannot sign in any more, please ask the administrator.",
        ),
    ),
)  # fmt: skip
