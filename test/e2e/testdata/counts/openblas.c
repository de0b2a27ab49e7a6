// Prints how many threads OpenBLAS takes for itself, and how many it has started.
#include <dirent.h>
#include <stdio.h>

int openblas_get_num_procs(void);
int openblas_get_num_threads(void);

int main(void) {
  int started = 0;
  DIR *tasks = opendir("/proc/self/task");
  if (!tasks) return 1;
  for (struct dirent *d; (d = readdir(tasks));) started += d->d_name[0] != '.';
  closedir(tasks);
  printf("openblas_get_num_procs %d\n", openblas_get_num_procs());
  printf("openblas_get_num_threads %d\n", openblas_get_num_threads());
  printf("OpenBLAS-threads %d\n", started);
}
