// Serves one disk to QEMU over a connected socket, in the NBD protocol.
#pragma once

#include "disk.h"

namespace vmtest {

// Returns when the client has gone or breaks the protocol. The subset of NBD:
// fixed newstyle handshake, NBD_OPT_GO, simple replies, requests in order
// (but for zeroes on a disk that is slow at them: they are done when they are
// due, and the others do not wait).
void ServeNbd(int socket, Disk& disk);

}  // namespace vmtest
