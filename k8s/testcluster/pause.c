// Process 1 of the node and of each pod: does nothing, reaps what ends, and ends
// when told to.

#include <signal.h>
#include <stddef.h>
#include <sys/wait.h>
#include <unistd.h>

static void End(int signal_number) {
  (void)signal_number;
  _exit(0);
}

static void Reap(int signal_number) {
  (void)signal_number;
  while (waitpid(-1, NULL, WNOHANG) > 0) {
  }
}

int main(void) {
  struct sigaction end = {.sa_handler = End};
  sigaction(SIGINT, &end, NULL);
  sigaction(SIGTERM, &end, NULL);
  struct sigaction reap = {.sa_handler = Reap, .sa_flags = SA_NOCLDSTOP};
  sigaction(SIGCHLD, &reap, NULL);
  for (;;) {
    pause();
  }
}
