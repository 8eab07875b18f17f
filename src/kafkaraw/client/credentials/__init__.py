"""What a login needs beyond a mechanism: passwords, tokens, tickets, and where they are fetched.

What may block (token endpoints, ticket services, the user's own functions) happens in here, under the deadline of the
connection that wants to log in, and never on the loop's thread unless it is asynchronous. Nothing here talks to a
broker, and no secret leaves except inside a mechanism. Optional packages are imported only by those who use them. Start
at `choice.credentials_for`.
"""
