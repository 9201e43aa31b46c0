"""A connection with TLS, with the methods of a non-blocking socket that sessions use."""

from __future__ import annotations

import socket
import ssl

from kqueue.base.settings import KiB, MiB

RECEIVE_BYTES_MAX = 256 * KiB
"""So much is decrypted at once: about a quarter of a millisecond."""
SEND_BYTES_MAX = MiB
"""So much is encrypted at once, then the loop serves others."""
_ANY_CONTEXT = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)


def clear_error_queue() -> None:
    """Remove what failed calls have left in OpenSSL's error queue of this thread.

    OpenSSL tells the outcome of a call by that queue. Python 3.14 leaves a failed system call in it
    (seen with OpenSSL 3.6), so that the next connection that has nothing to read fails with the
    error of this one. A new object clears the queue, and is the only public way to do so.
    """
    _ANY_CONTEXT.wrap_bio(ssl.MemoryBIO(), ssl.MemoryBIO(), server_side=True)


class TlsSocket:
    """A socket whose handshake is done, or under way: see `tls_handshakes`.

    Args:
        plain: a non-blocking socket, which belongs to this object from now on.
        server: the host that this side has connected to; None: this side is the server.
    """

    __slots__ = ("_tls",)

    def __init__(self, plain: socket.socket, context: ssl.SSLContext, server: str | None = None) -> None:
        self._tls = context.wrap_socket(
            plain, server_side=server is None, do_handshake_on_connect=False, server_hostname=server
        )

    def step(self) -> bool | None:
        """Go on with the handshake. Returns None when it is done; True: when the socket can be
        read, False: when it can be written, there is more to do.

        Thread: any, one at a time.
        Raises: OSError: it failed.
        """
        try:
            self._tls.do_handshake()
        except ssl.SSLWantReadError:
            return True
        except ssl.SSLWantWriteError:
            return False
        except OSError:
            clear_error_queue()
            raise
        return None

    @property
    def suite(self) -> str:
        """OpenSSL's name of the cipher suite."""
        cipher = self._tls.cipher()
        return cipher[0] if cipher else ""

    def peer_certificate(self) -> bytes | None:
        """Return the client's verified certificate as DER; None: it showed none."""
        return self._tls.getpeercert(binary_form=True)

    def fileno(self) -> int:
        """Return the descriptor; -1: closed."""
        return self._tls.fileno()

    def pending(self) -> int:
        """Return how many decrypted bytes wait, of which a selector knows nothing."""
        return self._tls.pending()

    def recv_into(self, buffer: memoryview) -> int:
        """Receive what has arrived, as much as fits into `buffer`; 0: the client sends no more.

        Raises:
            BlockingIOError: nothing has arrived.
            OSError: the connection failed.
        """
        size = min(len(buffer), RECEIVE_BYTES_MAX)
        received = 0
        try:
            # Record by record, as each call of OpenSSL returns one at most.
            while received < size:
                count = self._tls.recv_into(buffer[received:size])
                if not count:
                    break  # an end without TLS's own is met again by the next call
                received += count
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            if not received:
                raise BlockingIOError from None
        except OSError as error:
            clear_error_queue()
            # A read breaks a pipe only by the alert about an end without TLS's own.
            if not received and not isinstance(error, BrokenPipeError):
                raise
        return received

    def send(self, data: memoryview) -> int:
        """Send what the socket accepts, at most `SEND_BYTES_MAX`; returns the number of bytes.

        Raises:
            BlockingIOError: the socket is full. The next call must begin with the same bytes.
            OSError: the connection failed.
        """
        size = min(len(data), SEND_BYTES_MAX)
        sent = 0
        try:
            while sent < size:
                # After a full socket OpenSSL insists on the same bytes again: `SendQueue` keeps its
                # place, and begins there.
                sent += self._tls.send(data[sent:size])
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            if not sent:
                raise BlockingIOError from None
        except OSError:
            clear_error_queue()
            raise
        return sent

    def close(self) -> None:
        """Close, with TLS's own notice of the end if there is room for it."""
        try:
            # Best effort: without the notice a client can't tell this end from one that somebody in
            # between has made.
            self._tls.unwrap()
        except (OSError, ValueError):
            clear_error_queue()
        self._tls.close()

    def close_descriptor(self) -> None:
        """Close this process's copy of the socket only, without a word to the client."""
        self._tls.close()
