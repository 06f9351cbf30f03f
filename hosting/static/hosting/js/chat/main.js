/** Starts the chat page. */

import { ChatPage } from "./chat_page.js";

new ChatPage();
