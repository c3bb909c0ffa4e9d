// Serves one disk to QEMU over a connected socket, in the NBD protocol.
#pragma once

#include "disk.h"

namespace vmtest {

// Returns when the client has gone or breaks the protocol. The subset of NBD: fixed newstyle handshake,
// NBD_OPT_GO, simple replies, requests in order. Zeroes on a disk that zeroes slowly are the exception: they
// are done when they are due, and other requests do not wait.
void ServeNbd(int socket, Disk& disk);

}  // namespace vmtest
