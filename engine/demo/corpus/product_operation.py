"""How Hearth behaves: queue, caches, crashes, memory, administration and set-up."""

from __future__ import annotations

from engine.demo.corpus.topics import Topic

TOPICS = (
    Topic(
        weight=2,
        about=("the queue", "the fair queue", "queueing", "waiting in the queue", "fairness", "priorities"),
        questions=(
            "How does the queue work?", "What is the queue?", "Why do I have to wait?", "Why is my {request|message} {waiting|queued}?",
            "Who goes first?", "Is the queue fair?", "What is my place in the queue?", "What does queued mean?", "What are the priorities?",
            "Can one person {block|slow down} everybody else?", "How are requests {ordered|scheduled|shared}?", "Does Hearth have a queue?",
            "What happens when many people ask at once?", "What happens if two people send a message at the same time?",
        ),
        answers=(
            "Every request waits in a fair queue in Redis until the engine has room. Chat comes before API work, and API "
            "work before batch work. Between people the queue takes turns, so nobody can block the others. The page shows "
            "your place while you wait.",
        ),
    ),
    Topic(
        weight=2,
        about=("the cache", "caches", "the caches", "prefix caching", "the prefix cache", "prompt caching", "cached tokens"),
        questions=(
            "What is the {cache|prefix cache} for?", "How does the cache work?", "What are caches {for|good for}?", "What does cached mean?",
            "What are cached tokens?", "Why is the second {answer|question|message} faster?", "How does Hearth make repeated prompts fast?",
            "Where are the caches {kept|stored}?", "Does the cache change {my answers|the text}?", "Does Hearth cache prompts?",
            "Is there a cache on {disk|SSD}?", "What is a prefix cache?",
        ),
        answers=(
            "A cache keeps the work that the engine has done for the beginning of a prompt. When the next prompt starts "
            "with the same text, the engine takes that part from memory or from the SSD and reads only the rest. A cache "
            "changes the speed, never the text.",
        ),
    ),
    Topic(
        weight=3,
        about=("crash safety", "crashes", "engine crashes", "crash recovery", "a crash of the engine", "kill -9"),
        questions=(
            "What happens {if|when} the engine {crashes|dies|stops|fails|is killed|breaks}?", "Is Hearth crash {safe|proof}?",
            "Do I lose my answer {if|when} the engine {crashes|dies|is killed}?", "Can the engine crash?", "What if the engine dies?",
            "How does Hearth survive a crash?", "What does crash safe mean?", "What happens after kill -9?",
            "What happens to my answer when the {engine|process|server} {crashes|dies|restarts}?", "Can I lose an answer?",
            "Engine crash: what now?", "What happens if the machine running the model crashes in the middle of an answer?",
        ),
        answers=(
            "If the engine crashes, your answer is not lost. The supervisor starts the engine again, and the answer "
            "continues where it stopped, with the same words. You wait a few seconds longer, and that is all.",
        ),
    ),
    Topic(
        about=("reloading the page", "a second tab", "a lost connection", "a page reload"),
        questions=(
            "What happens {if|when} I {reload|close|refresh} the page?", "Can I reload the page?", "What if my {connection|internet|laptop} {breaks|fails|goes away}?",
            "Can I open {a second tab|two tabs}?", "Does my answer continue when I close the {page|tab|browser}?",
            "What happens if the web {process|server} dies?", "Will I lose my answer if I refresh?",
        ),
        answers=(
            "You can reload the page or open a second tab at any time. The answer goes on in the background, and the page "
            "shows the rest of it live.",
        ),
    ),
    Topic(
        about=("Redis", "a crash of Redis", "Redis failures"),
        questions=(
            "What is Redis {used for|for}?", "Why does Hearth need Redis?", "What happens {if|when} Redis {crashes|dies|stops|is down}?",
            "Do I have to install Redis?", "Which Redis does Hearth use?", "Does Hearth need Redis?", "How do I use my own Redis?",
        ),
        answers=(
            "Redis carries the requests and the streams of answers between the processes. Hearth starts its own private "
            "Redis, or uses the one in `REDIS_URL`. If Redis dies, it is started again and the answers continue.",
        ),
    ),
    Topic(
        weight=2,
        about=("the memory guard", "memory", "memory use", "memory limits", "the memory limit"),
        questions=(
            "What is the memory guard?", "What does the memory guard do?", "What happens {if|when} {memory|RAM} runs out?", "How much memory does Hearth {use|need}?",
            "Can the machine run out of memory?", "What happens if my prompt is too {large|big|long} for the memory?", "How is memory protected?",
            "Why was my request refused?", "What if a model does not fit in memory?", "Does Hearth protect the memory?",
        ),
        answers=(
            "The memory guard estimates what a request needs before it starts. What cannot fit is refused at once, with the "
            "numbers and a remedy, so the engine does not run out of memory. When memory gets tight, caches are made smaller first.",
        ),
    ),
    Topic(
        about=("long prompts", "the context limit", "the maximum prompt length"),
        questions=(
            "How long can my {prompt|message|question} be?", "What is the {context|token} limit?", "What happens if my prompt is too long?",
            "How many tokens can I send?", "What is the longest prompt?", "Can I send a very long {text|prompt|document}?",
        ),
        answers=(
            "Each model has a context limit; mine is 4,096 tokens for the prompt and the answer together. A prompt that is too "
            "long is refused before it starts, and the error tells you the numbers.",
        ),
    ),
    Topic(
        weight=2,
        about=("the admin", "the admin pages", "administration", "Django admin", "the administrator"),
        questions=(
            "What can the {administrator|admin} do?", "Where is the admin{| page}?", "How do I {open|reach|find} the admin?", "What is the admin page for?",
            "How do I become {the administrator|an admin|admin}?", "Who is the administrator?", "How is Hearth administered?", "What does the administrator see?",
            "How can an admin stop a request?", "Is there an admin {interface|page|panel}?", "What is the live page?",
        ),
        answers=(
            "The administrator opens `/admin/` to look after people, groups, API keys, models and limits. The live page at "
            "`/admin/live/` shows the engine, the running and the waiting requests, and a button to stop any of them.",
        ),
    ),
    Topic(
        about=("the first administrator", "the set-up URL", "the set-up page"),
        questions=(
            "How do I create the first administrator?", "What is the set-up URL?", "How do I {log in|sign in} for the first time?",
            "Where do I find the set-up {URL|link}?", "How does the first start work?", "How is the first account made?",
        ),
        answers=(
            "The first start prints a one-time set-up URL. Open it, choose your e-mail address and password, and you are the "
            "administrator. Without a screen, set `HEARTH_ADMIN_EMAIL` and `HEARTH_ADMIN_PASSWORD` instead.",
        ),
    ),
    Topic(
        about=("quotas", "limits for users", "usage limits", "rate limits"),
        questions=(
            "What are quotas?", "Is there a {limit|quota}{| for me| per user}?", "How many {requests|tokens|messages} can I {send|use}?", "Who sets the quotas?",
            "What happens {if|when} I {reach|exceed} my {quota|limit}?", "How do quotas work?", "Can the admin limit {users|people}?", "Why do I get error 429?",
        ),
        answers=(
            "A quota limits how much one person, group or key may use. The administrator sets it. When you reach your limit, you "
            "get a clear error with the time when you may try again.",
        ),
    ),
    Topic(
        about=("usage", "usage records", "the ledger", "usage statistics"),
        questions=(
            "How is usage {counted|measured|recorded}?", "Where can I see my usage?", "What is the ledger?", "How many tokens have I used?",
            "Is every request counted?", "Does Hearth {track|record} usage?",
        ),
        answers=(
            "The ledger records every request exactly once: who asked, which model, how many tokens, and how long it took. The "
            "administrator sees usage by person, key and model.",
        ),
    ),
    Topic(
        weight=2,
        about=("adding a model", "adding models", "larger models", "new models", "model folders"),
        questions=(
            "How do I add {a|another|a new|a larger|a bigger|a better|my own} model?", "How can {I|we} {add|install|register|use} {a|another|a larger|a bigger} model?",
            "Where do I get {a larger|a better|another} model?", "How do I use {Qwen|Llama|Mistral|Gemma|my own model} {here|with Hearth}?",
            "Which models does Hearth support?", "Can I use {other|larger|my own} models?", "Add a model.", "How do I download a model{| from Hugging Face}?",
            "I want a {larger|better|bigger|smarter} model.", "How does {the|an} administrator add a model?",
        ),
        answers=(
            "The administrator can add any MLX model folder:\n\n```bash\npython manage.py add_model /path/to/model --name my-model\n```\n\n"
            "It can also be done on the admin page, where a Hugging Face id is accepted too. The new model then appears in the model picker.",
        ),
    ),
    Topic(
        about=("switching models", "the model picker", "choosing a model"),
        questions=(
            "How do I {switch|change|choose|select|pick} {the|a|another} model?", "Where is the model picker?", "Can I {switch|change} models?",
            "Which models are {available|there|installed}?", "How do I talk to another model?", "List the models.",
        ),
        answers=(
            "Use the model picker of the chat page to choose another model. A script can ask for the list with `GET /v1/models`.",
        ),
    ),
    Topic(
        weight=1.5,
        about=("installation", "installing Hearth", "starting Hearth", "the set-up of Hearth", "make up"),
        questions=(
            "How do I {install|start|run|set up|launch} Hearth?", "How do I get started{| with Hearth}?", "What does make up do?", "How do I set {it|this} up?",
            "What do I need to {run|install} Hearth?", "How can I try Hearth{| on my machine}?", "Which command starts Hearth?", "What are the two commands?",
            "Where do I start?", "Does Hearth run on {Linux|macOS|a Mac|Debian|Ubuntu|Windows}?",
        ),
        answers=(
            "Two commands are enough, on Linux or on a Mac with Apple silicon:\n\n```bash\nmake up    # creates what is missing and starts everything\n"
            "make test  # runs all tests\n```\n\nThen open the page that it prints.",
        ),
    ),
    Topic(
        about=("stopping Hearth", "shutting down"),
        questions=(
            "How do I {stop|shut down|quit|end} Hearth?", "How can I stop the {server|service}?", "How do I turn Hearth off?", "What does Ctrl-C do?",
        ),
        answers=(
            "Press Ctrl-C once in the terminal where Hearth runs. All its processes end within ten seconds.",
        ),
    ),
    Topic(
        about=("the settings", "environment variables", "the configuration", "changing the port", "the data folder"),
        questions=(
            "How do I change the port?", "Which environment variables {are there|does Hearth know}?", "How do I configure Hearth?", "Where is {the|my} data {kept|stored}?",
            "What is HEARTH_DATA_DIR?", "How do I use PostgreSQL?", "Which database does Hearth use?", "What is the default port?", "How do I use another {port|folder|database}?",
        ),
        answers=(
            "Hearth reads a few environment variables:\n\n| Name | Meaning |\n| --- | --- |\n| `PORT` | port of the web page, 8000 by default |\n"
            "| `HEARTH_DATA_DIR` | folder of all data |\n| `DATABASE_URL` | PostgreSQL instead of SQLite |\n| `REDIS_URL` | a Redis of your own |",
        ),
    ),
    Topic(
        about=("the doctor command", "problems", "errors", "troubleshooting"),
        questions=(
            "What does the doctor command do?", "{Something|It} does not work.", "How do I find out what is wrong?", "Hearth is {broken|not working|slow|down}.",
            "How do I check my installation?", "Where are the logs?", "I have a problem with Hearth.", "What should I do when something is broken?",
        ),
        answers=(
            "Run the doctor first:\n\n```bash\npython manage.py doctor\n```\n\nIt checks Python, MLX, memory, Redis, the database, ports, disk "
            "and model folders. Each line says ok or what to do.",
        ),
    ),
    Topic(
        about=("health checks", "metrics", "monitoring"),
        questions=(
            "How do I monitor Hearth?", "Is there a health check?", "Where are the metrics?", "What is {healthz|readyz}?", "Does Hearth support Prometheus?",
        ),
        answers=(
            "There are three addresses for monitoring: `/healthz` says that the web process lives, `/readyz` turns red when the engine "
            "stops decoding, and `/metrics` gives numbers for Prometheus.",
        ),
    ),
)  # fmt: skip
