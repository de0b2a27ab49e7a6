/*
 * SPANK plugin that runs the tasks of a step in a container: srun --container-image=PATH.
 *
 * It only carries: the options to the program slurm-container, which runs as the job's user, and what that program answers to the
 * tasks. No decision is made here, and nothing that a user gives is opened, parsed or mounted with root's rights. Tasks enter the
 * namespaces after they have become the user, so the kernel lets them into their own ones only.
 *
 * Arguments in plugstack.conf: data=FOLDER for images and containers, program=PATH of slurm-container.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <limits.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include <slurm/slurm.h>
#include <slurm/spank.h>

SPANK_PLUGIN(slurm_container, 1);

#define ANSWER_LIMIT (4 << 20)

/* The namespaces of the step's container and the lock on it, in the order in which they come. */
enum { USER_NAMESPACE, MOUNT_NAMESPACE, LOCK, FILES };

static struct {
	char *data, *program;       /* from plugstack.conf */
	pid_t owner;                /* the process that has made the container */
	uint32_t exited;            /* tasks that have ended */
	int failed;                 /* there is no container, and so no task may run */
	int folder;                 /* where the job works: slurmstepd itself is there only for a while */
	int files[FILES];
	char *answer;               /* records: a letter, a text, a zero byte */
	size_t length;
} state = { .folder = -1, .files = { -1, -1, -1 } };

static int collect(int val, const char *arg, int remote);

/* The place in this table is the option's value. */
static struct spank_option options[] = {
	{ "container-image", "PATH[#NAME]", "[container] run tasks in this image: a file that the nodes can read, written by docker save, "
	  "crane pull or buildah push, or a squashfs file; NAME chooses one of several in it", 1, 0, collect },
	{ "container-mounts", "SRC[:DST[:FLAGS]][,...]", "[container] paths of the node to show in the container, or tmpfs; FLAGS are ro "
	  "and rw", 1, 1, collect },
	{ "container-workdir", "PATH", "[container] where tasks start in the container; default is what the image says", 1, 2, collect },
	{ "container-name", "NAME", "[container] keep the container on the node under this name, and use it again if it is there", 1, 3,
	  collect },
	{ "container-save", "PATH", "[container] write the container's files into this squashfs file at the end of the step", 1, 4,
	  collect },
	{ "container-env", "NAME[,NAME...]", "[container] variables whose value in the job counts, not the one in the image", 1, 5,
	  collect },
	{ "container-mount-home", NULL, "[container] show the home folder in the container", 0, 6, collect },
	{ "no-container-mount-home", NULL, "[container] don't show the home folder in the container (default)", 0, 7, collect },
	{ "container-remap-root", NULL, "[container] be root in the container; outside of it you stay who you are", 0, 8, collect },
	{ "no-container-remap-root", NULL, "[container] be yourself in the container (default)", 0, 9, collect },
	{ "container-writable", NULL, "[container] let tasks change the container's files (default)", 0, 10, collect },
	{ "container-readonly", NULL, "[container] don't let tasks change the container's files", 0, 11, collect },
	SPANK_OPTIONS_TABLE_END
};

#define OPTIONS (sizeof(options) / sizeof(options[0]) - 1)
enum { IMAGE = 0, NAME = 3, SAVE = 4 };

/* What the user has given, as arguments for slurm-container; NULL is not given. */
static char *given[OPTIONS];

/* Slurm calls this again with the same value for the options that it has carried here. */
static int collect(int val, const char *arg, int remote)
{
	char *text = NULL;

	(void) remote;
	if (val < 0 || (size_t) val >= OPTIONS)
		return -1;
	if (options[val].has_arg && (!arg || !*arg)) {
		slurm_error("container: --%s needs a value", options[val].name);
		return -1;
	}
	if (asprintf(&text, options[val].has_arg ? "--%s=%s" : "--%s", options[val].name, arg) < 0)
		return -1;
	if (given[val] && strcmp(given[val], text)) {
		slurm_error("container: --%s is given twice", options[val].name);
		free(text);
		return -1;
	}
	free(given[val]);
	given[val] = text;
	return 0;
}

static int wanted(void)
{
	return given[IMAGE] || given[NAME];
}

/* The step that only holds a job's cgroup has no tasks to put anywhere. */
static int has_tasks(spank_t sp)
{
	uint32_t step_id;

	return spank_get_item(sp, S_JOB_STEPID, &step_id) == ESPANK_SUCCESS && step_id != SLURM_EXTERN_CONT;
}

static int setting(char **to, const char *arg, const char *key)
{
	size_t n = strlen(key);

	if (strncmp(arg, key, n) || arg[n] != '/')
		return 0;
	free(*to);
	*to = strdup(arg + n);
	return *to != NULL;
}

int slurm_spank_init(spank_t sp, int ac, char **av)
{
	state.data = strdup("/var/lib/slurm-container");
	state.program = strdup("/usr/lib/slurm-container/slurm-container");
	for (int i = 0; i < ac; i++) {
		if (setting(&state.data, av[i], "data=") || setting(&state.program, av[i], "program="))
			continue;
		slurm_error("container: %s in plugstack.conf is not data=/FOLDER or program=/PATH", av[i]);
		return -1;
	}
	/* A volume may come writable for all. This is before the first job. */
	if (spank_context() == S_CTX_SLURMD && geteuid() == 0 &&
	    ((mkdir(state.data, 0755) && errno != EEXIST) || chmod(state.data, 0755))) {
		slurm_error("container: can't make the folder %s: %m", state.data);
		return -1;
	}
	for (size_t i = 0; i < OPTIONS; i++) {
		if (spank_option_register(sp, &options[i]) != ESPANK_SUCCESS) {
			slurm_error("container: can't add the option --%s", options[i].name);
			return -1;
		}
	}
	return 0;
}

/* Only root may have put something there: it decides whose folders are whose. */
static int make_folder(uid_t uid, gid_t gid)
{
	struct stat st;
	char path[PATH_MAX];

	snprintf(path, sizeof(path), "%s/%u", state.data, (unsigned) uid);
	if (geteuid() != 0)
		return 0; /* a slurmd without root runs its own user's jobs only */
	if (lstat(state.data, &st)) {
		slurm_error("container: %s: %m", state.data);
		return -1;
	}
	if (!S_ISDIR(st.st_mode) || st.st_uid != 0 || (st.st_mode & 022)) {
		slurm_error("container: %s must be a folder of root's that nobody else may write to", state.data);
		return -1;
	}
	if ((mkdir(path, 0700) && errno != EEXIST) || lchown(path, uid, gid)) {
		slurm_error("container: can't make %s: %m", path);
		return -1;
	}
	return 0;
}

/* Still as root. */
int slurm_spank_init_post_opt(spank_t sp, int ac, char **av)
{
	uid_t uid;
	gid_t gid;

	(void) ac;
	(void) av;
	if (!wanted()) {
		for (size_t i = 0; i < OPTIONS; i++) {
			if (given[i]) {
				slurm_error("container: %s does nothing without --container-image or --container-name", given[i]);
				return -1;
			}
		}
		return 0;
	}
	if (spank_context() != S_CTX_REMOTE || !has_tasks(sp))
		return 0;
	if (spank_get_item(sp, S_JOB_UID, &uid) != ESPANK_SUCCESS || spank_get_item(sp, S_JOB_GID, &gid) != ESPANK_SUCCESS ||
	    make_folder(uid, gid))
		state.failed = 1;
	return 0;
}

/* In the child that becomes slurm-container. It is slurmstepd's, so it first gives up all that root has. */
static void become(char **argv, char **env, int channel, uid_t uid, gid_t gid, gid_t *groups, int count)
{
	sigset_t none;
	int null;

	if (getuid() != uid) {
		if (seteuid(0) || setgroups(count, groups) || setresgid(gid, gid, gid) || setresuid(uid, uid, uid))
			_exit(126);
	}
	null = open("/dev/null", O_RDWR);
	if (state.folder >= 0 && fchdir(state.folder))
		_exit(126);
	if (null < 0 || dup2(null, 0) < 0 || dup2(null, 1) < 0 || dup2(null, 2) < 0 || dup2(channel, 3) < 0)
		_exit(126);
	close_range(4, ~0U, 0);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	for (int s = 1; s < NSIG; s++)
		signal(s, SIG_DFL);
	execve(state.program, argv, env);
	_exit(127);
}

static void keep_files(struct msghdr *m)
{
	for (struct cmsghdr *c = CMSG_FIRSTHDR(m); c; c = CMSG_NXTHDR(m, c)) {
		int fd;
		size_t n;

		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
			continue;
		n = (c->cmsg_len - CMSG_LEN(0)) / sizeof(fd);
		for (size_t i = 0; i < n; i++) {
			memcpy(&fd, CMSG_DATA(c) + i * sizeof(fd), sizeof(fd));
			if (i < FILES && state.files[i] < 0)
				state.files[i] = fd;
			else
				close(fd);
		}
	}
}

/* Reads until the program and all its children have closed the channel. */
static int read_answer(int channel)
{
	size_t size = 1 << 16;

	free(state.answer);
	state.length = 0;
	state.answer = malloc(size);
	while (state.answer) {
		char control[CMSG_SPACE(8 * sizeof(int))];
		struct iovec iov = { state.answer + state.length, size - state.length };
		struct msghdr m = { .msg_iov = &iov, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof(control) };
		ssize_t n = recvmsg(channel, &m, MSG_CMSG_CLOEXEC);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -1;
		keep_files(&m);
		if (n == 0)
			return state.length && state.answer[state.length - 1] ? -1 : 0;
		state.length += n;
		if (state.length == size) {
			char *more = size < ANSWER_LIMIT ? realloc(state.answer, size * 2) : NULL;

			if (!more)
				return -1;
			state.answer = more;
			size *= 2;
		}
	}
	return -1;
}

/* Calls f for each record of the answer until it returns something else than 0. */
static int each_record(spank_t sp, int (*f)(spank_t, char, char *))
{
	for (char *p = state.answer, *end = p + state.length; p && p < end; p += strlen(p) + 1) {
		int rc = *p ? f(sp, *p, p + 1) : 0;

		if (rc)
			return rc;
	}
	return 0;
}

static int show(spank_t sp, char kind, char *text)
{
	(void) sp;
	if (kind == 'E') {
		slurm_error("container: %s", text);
		return -1;
	}
	if (kind == 'I')
		slurm_spank_log("container: %s", text);
	return 0;
}

/* Runs one command of slurm-container as the job's user and leaves its answer in state. */
static int run(spank_t sp, const char *command)
{
	char *argv[OPTIONS + 6], **env = NULL, **job_argv = NULL, *data = NULL, *step = NULL, *script = NULL;
	uint32_t job_id, step_id;
	int n = 0, rc = -1, status = 0, count = 0, job_argc = 0, pair[2];
	gid_t gid, *groups = NULL;
	uid_t uid;
	pid_t pid;

	if (spank_get_item(sp, S_JOB_UID, &uid) != ESPANK_SUCCESS || spank_get_item(sp, S_JOB_GID, &gid) != ESPANK_SUCCESS ||
	    spank_get_item(sp, S_JOB_SUPPLEMENTARY_GIDS, &groups, &count) != ESPANK_SUCCESS ||
	    spank_get_item(sp, S_JOB_ID, &job_id) != ESPANK_SUCCESS || spank_get_item(sp, S_JOB_STEPID, &step_id) != ESPANK_SUCCESS ||
	    spank_get_item(sp, S_JOB_ENV, &env) != ESPANK_SUCCESS) {
		slurm_error("container: can't learn from Slurm what job this is");
		return -1;
	}
	argv[n++] = "slurm-container";
	argv[n++] = (char *) command;
	if (asprintf(&data, "--data=%s/%u", state.data, (unsigned) uid) < 0 || asprintf(&step, "--step=%u.%u", job_id, step_id) < 0)
		return -1;
	argv[n++] = data;
	argv[n++] = step;
	if (step_id == SLURM_BATCH_SCRIPT && spank_get_item(sp, S_JOB_ARGV, &job_argc, &job_argv) == ESPANK_SUCCESS && job_argc > 0) {
		if (asprintf(&script, "--script=%s", job_argv[0]) < 0)
			return -1;
		argv[n++] = script;
	}
	for (size_t i = 0; i < OPTIONS; i++)
		if (given[i])
			argv[n++] = given[i];
	argv[n] = NULL;

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair)) {
		slurm_error("container: %m");
		goto out;
	}
	pid = fork();
	if (pid == 0)
		become(argv, env, pair[1], uid, gid, groups, count);
	close(pair[1]);
	if (pid > 0) {
		rc = read_answer(pair[0]);
		while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
			;
	}
	close(pair[0]);
	if (rc == 0)
		rc = each_record(sp, show);
	else
		slurm_error("container: %s gave no proper answer", state.program);
	if (rc == 0 && status != 0) {
		slurm_error("container: %s ended without a word (wait status 0x%x)", state.program, status);
		rc = -1;
	}
out:
	free(data);
	free(step);
	free(script);
	return rc;
}

static void close_files(void)
{
	for (int i = 0; i < FILES; i++) {
		if (state.files[i] >= 0)
			close(state.files[i]);
		state.files[i] = -1;
	}
}

int slurm_spank_user_init(spank_t sp, int ac, char **av)
{
	(void) ac;
	(void) av;
	if (spank_context() != S_CTX_REMOTE || !wanted() || !has_tasks(sp))
		return 0;
	state.folder = open(".", O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (state.failed || run(sp, "prepare")) {
		state.failed = 1;
	} else if (state.files[FILES - 1] < 0) {
		slurm_error("container: %s made no container", state.program);
		state.failed = 1;
	} else {
		state.owner = getpid();
	}
	/*
	 * Slurm takes a failure here for the node's: it drains it, and tries a batch job on the next one. A user's wrong path would
	 * take down the cluster. So it is the tasks that fail.
	 */
	return 0;
}

static int apply(spank_t sp, char kind, char *text)
{
	char *value;

	if (kind == 'W' && chdir(text)) {
		slurm_error("container: can't start in %s: %m", text);
		return -1;
	}
	if (kind != 'V' || !(value = strchr(text, '=')))
		return 0;
	*value = '\0'; /* the task's own copy of the answer */
	if (spank_setenv(sp, text, value + 1, 1) != ESPANK_SUCCESS)
		slurm_error("container: can't set the variable %s", text);
	*value = '=';
	return 0;
}

/* As the user, just before the task's program: the last thing that happens outside. */
int slurm_spank_task_init(spank_t sp, int ac, char **av)
{
	(void) ac;
	(void) av;
	if (state.failed) {
		slurm_error("container: the task doesn't run, since it has no container");
		return -1;
	}
	if (state.files[FILES - 1] < 0)
		return 0;
	if (setns(state.files[USER_NAMESPACE], CLONE_NEWUSER) || setns(state.files[MOUNT_NAMESPACE], CLONE_NEWNS)) {
		slurm_error("container: can't enter it: %m");
		return -1;
	}
	return each_record(sp, apply);
}

/* After the last task: what goes wrong still reaches the user. The lock is ours until the exit. */
int slurm_spank_task_exit(spank_t sp, int ac, char **av)
{
	uint32_t tasks;

	(void) ac;
	(void) av;
	if (state.owner != getpid() || !given[SAVE])
		return 0;
	if (spank_get_item(sp, S_JOB_LOCAL_TASK_COUNT, &tasks) != ESPANK_SUCCESS)
		return -1;
	return ++state.exited == tasks ? run(sp, "save") : 0;
}

int slurm_spank_exit(spank_t sp, int ac, char **av)
{
	(void) ac;
	(void) av;
	if (state.owner != getpid())
		return 0;
	close_files();
	return run(sp, "finish");
}
