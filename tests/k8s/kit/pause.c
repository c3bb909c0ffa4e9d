// Holds the namespaces of a pod until the container runtime ends it.
#include <signal.h>
#include <unistd.h>

static void leave(int number) {
  _exit(number == SIGTERM || number == SIGINT ? 0 : 1);
}

int main(void) {
  signal(SIGTERM, leave);
  signal(SIGINT, leave);
  signal(SIGCHLD, SIG_IGN);
  for (;;) {
    pause();
  }
}
