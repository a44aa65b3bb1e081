/*
 * Runs a program whose disk can be made to fail while it runs: disk-faults CONTROL FOLDER PROGRAM [ARGUMENT...]
 *
 * The file CONTROL says how: "eio" lets every sync of a file in FOLDER fail with EIO, "erofs" refuses every change in FOLDER as
 * a file system does that has become read-only; anything else, or no file, lets all through. The kernel asks us about each of
 * these system calls (seccomp user notification), so that it does not matter how the program makes them, and no rights are needed.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

enum kind { by_file, by_path, by_path_at, by_sync };

static const struct { long number; enum kind kind; } watched[] = {
	{ __NR_fsync, by_sync }, { __NR_fdatasync, by_sync },
	{ __NR_pwrite64, by_file }, { __NR_pwritev, by_file }, { __NR_ftruncate, by_file }, { __NR_fallocate, by_file },
	{ __NR_openat, by_path_at }, { __NR_mkdirat, by_path_at }, { __NR_unlinkat, by_path_at },
#ifdef __NR_unlink
	{ __NR_unlink, by_path }, { __NR_mkdir, by_path }, { __NR_rmdir, by_path },
#endif
};
enum { watched_count = sizeof watched / sizeof watched[0] };

enum { open_changes = O_WRONLY | O_RDWR | O_CREAT | O_TRUNC };

static int listen_to_calls(void)
{
	struct sock_filter filter[watched_count + 6];
	int at = 0;
	filter[at++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
	/* Who only reads is not asked about: that is most of what is opened, and all that we open ourselves. */
	filter[at++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_openat, 0, 2);
	filter[at++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[2]));
	filter[at++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, open_changes, watched_count + 1, watched_count);
	for (int i = 0; i < watched_count; i++)
		filter[at++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, watched[i].number, watched_count - i, 0);
	filter[at++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
	filter[at++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_USER_NOTIF);
	struct sock_fprog program = { .len = at, .filter = filter };
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return -1;
	return syscall(__NR_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER, &program);
}

/* The words that the control file begins with. */
static void read_mode(const char *control, char *mode, size_t size)
{
	int file = open(control, O_RDONLY | O_CLOEXEC);
	ssize_t length = file < 0 ? 0 : read(file, mode, size - 1);
	if (file >= 0) close(file);
	mode[length < 0 ? 0 : length] = 0;
}

static int path_of_file(int thread, int file, char *path, size_t size)
{
	char link[64];
	snprintf(link, sizeof link, "/proc/%d/fd/%d", thread, file);
	ssize_t length = readlink(link, path, size - 1);
	path[length < 0 ? 0 : length] = 0;
	return length > 0;
}

static int text_at(int thread, unsigned long long address, char *text, size_t size)
{
	char memory[64];
	snprintf(memory, sizeof memory, "/proc/%d/mem", thread);
	int file = open(memory, O_RDONLY | O_CLOEXEC);
	if (file < 0) return 0;
	ssize_t length = pread(file, text, size - 1, (off_t)address);
	close(file);
	text[length < 0 ? 0 : length] = 0;
	return length > 0;
}

/* The error that a call gets; 0 lets it through. */
static int verdict(const struct seccomp_notif *call, const char *mode, const char *folder)
{
	enum kind kind = by_file;
	for (int i = 0; i < watched_count; i++) if (watched[i].number == call->data.nr) kind = watched[i].kind;
	const unsigned long long *given = call->data.args;
	int error = strncmp(mode, "eio", 3) == 0 && kind == by_sync ? EIO : strncmp(mode, "erofs", 5) == 0 && kind != by_sync ? EROFS : 0;
	if (error == 0) return 0;
	char path[4096];
	int known = kind == by_file || kind == by_sync ? path_of_file(call->pid, given[0], path, sizeof path)
		: text_at(call->pid, given[kind == by_path ? 0 : 1], path, sizeof path);
	return known && strncmp(path, folder, strlen(folder)) == 0 ? error : 0;
}

static void answer_calls(int listener, const char *control, const char *folder)
{
	for (;;) {
		struct seccomp_notif call;
		struct seccomp_notif_resp answer;
		memset(&call, 0, sizeof call);
		memset(&answer, 0, sizeof answer);
		if (ioctl(listener, SECCOMP_IOCTL_NOTIF_RECV, &call) != 0) {
			if (errno == EINTR || errno == ENOENT) continue;
			return;
		}
		char mode[16];
		read_mode(control, mode, sizeof mode);
		int error = verdict(&call, mode, folder);
		answer.id = call.id;
		answer.error = -error;
		answer.flags = error == 0 ? SECCOMP_USER_NOTIF_FLAG_CONTINUE : 0;
		ioctl(listener, SECCOMP_IOCTL_NOTIF_SEND, &answer);
	}
}

int main(int count, char **arguments)
{
	if (count < 4) return 64;
	pid_t parent = getpid();
	int listener = listen_to_calls();
	if (listener < 0) {
		perror("disk-faults: seccomp");
		return 69;
	}
	pid_t child = fork();
	if (child < 0) return 71;
	if (child == 0) {
		/* It must not make any of the calls it answers, nor outlive the program, nor hold its output open. */
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (getppid() != parent) return 0;
		for (int file = 0; file < 3; file++) close(file);
		answer_calls(listener, arguments[1], arguments[2]);
		return 0;
	}
	close(listener);
	execvp(arguments[3], arguments + 3);
	perror("disk-faults: exec");
	return 127;
}
