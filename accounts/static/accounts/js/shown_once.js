// The page that answered a form: loaded again, it is asked for like any other, and the form is not sent a second time.
"use strict";

history.replaceState(null, "", location.href);
