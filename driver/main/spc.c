/* The `spc` command: the library's command entry and nothing else. */
#include "spc.h"

int main(int argc, char **argv) { return spc_command(argc, argv); }
