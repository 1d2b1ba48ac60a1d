// coterie: the command line of Coterie (client/cli.h).

#include <sys/ioctl.h>
#include <unistd.h>

#include <iostream>
#include <string>
#include <vector>

#include "client/cli.h"

int main(int argc, char** argv) {
  coterie::Terminal terminal;
  terminal.in = &std::cin;
  terminal.out = &std::cout;
  terminal.err = &std::cerr;
  terminal.in_is_terminal = isatty(STDIN_FILENO) == 1;
  terminal.err_is_terminal = isatty(STDERR_FILENO) == 1;
  winsize window = {};
  if (ioctl(STDERR_FILENO, TIOCGWINSZ, &window) == 0 && window.ws_col > 0) {
    terminal.columns = window.ws_col;
  }
  return coterie::RunCli(std::vector<std::string>(argv + 1, argv + argc),
                         terminal);
}
