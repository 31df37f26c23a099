// Threads that a program may or may not have.
#pragma once
#include <csignal>

namespace lshformer {

// How many of `wanted` threads beside this one the system starts: it may limit processes, memory or address space, and
// libgomp ends the program where it cannot have a thread. They end at once.
int ThreadsThatStart(int wanted);

// Threads that are made while it lives get no signals from outside: those are for the threads that work.
class SignalsElsewhere {
 public:
  SignalsElsewhere();
  ~SignalsElsewhere();
  SignalsElsewhere(const SignalsElsewhere&) = delete;
  SignalsElsewhere& operator=(const SignalsElsewhere&) = delete;

 private:
  sigset_t before_;
};

}  // namespace lshformer
