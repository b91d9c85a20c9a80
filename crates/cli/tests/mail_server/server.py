"""A mail server that keeps what it is sent: python server.py plain|starttls|tls CERT KEY.

Prints its port on the first line, and each message that it took as a line of JSON. Recipients
say what becomes of a message: refused@ (550), greylist@ (451 the first time), full@ (552),
gone@ (the connection breaks off), lost@ (it is taken, and never answered).
Users log in as "me" with the password "smtp-password-1"; with plain they need not.
"""

import asyncio
import json
import ssl
import sys

from aiosmtpd.smtp import SMTP, AuthResult, LoginPassword


class Handler:
    def __init__(self):
        self.greylisted = set()

    async def handle_RCPT(self, server, session, envelope, address, options):
        if address.startswith("gone@"):
            server.transport.abort()
        if address.startswith("refused@"):
            return "550 5.1.1 no such user"
        if address.startswith("greylist@") and address not in self.greylisted:
            self.greylisted.add(address)
            return "451 4.7.1 greylisted, try again later"
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(self, server, session, envelope):
        if any(address.startswith("full@") for address in envelope.rcpt_tos):
            return "552 5.3.4 message too large"
        print(json.dumps({
            "from": envelope.mail_from,
            "to": envelope.rcpt_tos,
            "content": envelope.content.decode("utf-8", "replace"),
            "tls": server.transport.get_extra_info("ssl_object") is not None,
            "user": getattr(session, "auth_data", None) is not None,
        }), flush=True)
        # Taken, and not answered: the client cannot know.
        if any(address.startswith("lost@") for address in envelope.rcpt_tos):
            await asyncio.sleep(3600)
        return "250 OK"


def authenticate(server, session, envelope, mechanism, data):
    wanted = LoginPassword(b"me", b"smtp-password-1")
    return AuthResult(success=data == wanted, handled=False, auth_data=data)


async def main(mode, certificate, key):
    handler = Handler()
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate, key)
    protected = mode != "plain"

    def session():
        return SMTP(
            handler,
            hostname="mail.test",
            authenticator=authenticate,
            auth_required=protected,
            auth_require_tls=mode == "starttls",
            tls_context=context if mode == "starttls" else None,
            require_starttls=mode == "starttls",
        )

    wrapped = context if mode == "tls" else None
    loop = asyncio.get_running_loop()
    server = await loop.create_server(session, "127.0.0.1", 0, ssl=wrapped)
    print(server.sockets[0].getsockname()[1], flush=True)
    # Ends with the test, which closes its end of the pipe.
    await loop.run_in_executor(None, sys.stdin.read)


asyncio.run(main(*sys.argv[1:4]))
