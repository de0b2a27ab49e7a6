// Prints how many CPUs a program finds, in each of the ways that C and C++ programs count them.
#include <cstdio>
#include <omp.h>
#include <sched.h>
#include <sys/sysinfo.h>
#include <thread>
#include <unistd.h>

int main() {
  cpu_set_t mask;
  sched_getaffinity(0, sizeof mask, &mask);
  std::printf("sched_getaffinity %d\n", CPU_COUNT(&mask));
  std::printf("sysconf(_SC_NPROCESSORS_ONLN) %ld\n", sysconf(_SC_NPROCESSORS_ONLN));
  std::printf("get_nprocs %d\n", get_nprocs());
  std::printf("std::thread::hardware_concurrency %u\n", std::thread::hardware_concurrency());
  std::printf("omp_get_num_procs %d\n", omp_get_num_procs());
  std::printf("omp_get_max_threads %d\n", omp_get_max_threads());
  std::printf("configured %ld\n", sysconf(_SC_NPROCESSORS_CONF));
}
