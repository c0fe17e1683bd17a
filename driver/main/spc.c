/* The `spc` command: the library's command entry and nothing else. */
#define _XOPEN_SOURCE 700 /* SIGXFSZ */
#include <signal.h>

#include "spc.h"

int main(int argc, char **argv) {
  signal(SIGXFSZ, SIG_IGN); /* a limit on file sizes is a failed write, which is reported */
  return spc_command(argc, argv);
}
