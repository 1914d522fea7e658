/* A layer between a process and its disk, loaded with LD_PRELOAD, that makes chosen calls of the C library fail.

It counts and records calls that concern files below one folder, whoever makes them: Python, Arrow, FFmpeg, safetensors.
    faults_arm(folder, kind, at, trace)  start; kind 'E': an I/O error at call number `at`; 'N': from the `at`-th call that
                                         takes space on, the disk is full, and the first write is cut in half; 'S': the
                                         `at`-th write writes half; 'R': nothing fails, every change is written to `trace`
    faults_counts(counts)                calls so far of the kinds E, N and S, and changes that are not seen (mapped or
                                         buffered writes)
    faults_mark(text)                    record that the caller relies on what came before
While armed, fsync only counts and records: the kernel outlives a killed process. */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

enum { ANY, SPACE, WRITE, UNSEEN };
enum { NONE = 0, HALF = -1 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int armed, kind, trace = -1, full;
static long at, counts[4];
static char root[PATH_MAX];

#define REAL(type, name, ...)                                        \
    static type (*real_##name)(__VA_ARGS__);                         \
    if (!real_##name) *(void **)(&real_##name) = dlsym(RTLD_NEXT, #name)

static ssize_t raw_write(int fd, const void *data, size_t size) {
    REAL(ssize_t, write, int, const void *, size_t);
    return real_write(fd, data, size);
}

/* One line per change: OP<TAB>number<TAB>number<TAB>size of data<TAB>path<TAB>path, then the data. */
static void record(char op, long first, long second, const char *path, const char *other, const void *data, size_t size) {
    if (trace < 0) return;
    char line[2 * PATH_MAX + 128];
    int length = snprintf(line, sizeof line, "%c\t%ld\t%ld\t%zu\t%s\t%s\n", op, first, second, size, path, other);
    if (raw_write(trace, line, length) != length || (size && raw_write(trace, data, size) != (ssize_t)size)) abort();
}

static int below(const char *path) {
    size_t length = strlen(root);
    return armed && !strncmp(path, root, length) && (path[length] == '/' || !path[length]);
}

/* The absolute path of `path` seen from folder `fd`, without `.`, `..` and `//`. */
static void absolute(int fd, const char *path, char *out) {
    char whole[2 * PATH_MAX] = "", link[64];
    if (path[0] != '/') {
        if (fd == AT_FDCWD) {
            if (!getcwd(whole, PATH_MAX)) whole[0] = 0;
        } else {
            snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
            ssize_t length = readlink(link, whole, PATH_MAX - 1);
            whole[length > 0 ? length : 0] = 0;
        }
        strcat(whole, "/");
    }
    strncat(whole, path, PATH_MAX - 1);
    char *save = NULL;
    size_t used = 0;
    out[0] = 0;
    for (char *part = strtok_r(whole, "/", &save); part; part = strtok_r(NULL, "/", &save)) {
        if (!strcmp(part, ".")) continue;
        if (!strcmp(part, "..")) {
            char *slash = strrchr(out, '/');
            used = slash ? (size_t)(slash - out) : 0;
            out[used] = 0;
        } else if (used + strlen(part) + 2 < PATH_MAX) {
            used += sprintf(out + used, "/%s", part);
        }
    }
}

/* Whether `fd` is a file or folder below the root; its path as it is now, and its inode. */
static int tracked(int fd, char *path, struct stat *facts) {
    if (!armed || fd == trace || fstat(fd, facts) || !(S_ISREG(facts->st_mode) || S_ISDIR(facts->st_mode))) return 0;
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, PATH_MAX - 1);
    path[length > 0 ? length : 0] = 0;
    return below(path);
}

/* Count a call; returns the error it must end with, HALF for half a write, NONE if it may go on. */
static int fault(int space, int writes, const char *path) {
    long any = counts[ANY]++;
    long spacious = space ? counts[SPACE]++ : -1;
    long written = writes ? counts[WRITE]++ : -1;
    if (kind == 'R') record('#', space, writes, path, "", NULL, 0);
    if (kind == 'E' && any == at) return EIO;
    if (kind == 'S' && writes && written == at) return HALF;
    if (kind == 'N' && space && spacious >= at) {
        int first = !full;
        full = 1;
        return first && writes ? HALF : ENOSPC;
    }
    return NONE;
}

#define FAIL_IF(space, path)                          \
    do {                                              \
        int error_ = fault(space, 0, path);           \
        if (error_) {                                 \
            pthread_mutex_unlock(&lock);              \
            errno = error_;                           \
            return -1;                                \
        }                                             \
    } while (0)

void faults_arm(const char *folder, int which, long number, int trace_fd) {
    snprintf(root, sizeof root, "%s", folder);
    kind = which, at = number, trace = trace_fd, full = 0;
    memset(counts, 0, sizeof counts);
    armed = 1;
}

void faults_counts(long *out) { memcpy(out, counts, sizeof counts); }

void faults_disarm(void) { armed = 0; }

void faults_mark(const char *text) {
    pthread_mutex_lock(&lock);
    if (armed) record('m', 0, 0, text, "", NULL, 0);
    pthread_mutex_unlock(&lock);
}

static int open_at(int folder, const char *path, int flags, mode_t mode) {
    REAL(int, openat, int, const char *, int, mode_t);
    char whole[PATH_MAX];
    if (!armed || (absolute(folder, path, whole), !below(whole))) return real_openat(folder, path, flags, mode);
    pthread_mutex_lock(&lock);
    struct stat facts;
    int there = !stat(whole, &facts);
    FAIL_IF((flags & O_CREAT) && !there, whole);
    int fd = real_openat(folder, path, flags, mode);
    if (fd >= 0 && (((flags & O_CREAT) && !there) || (flags & O_TRUNC)) && !fstat(fd, &facts))
        record('c', facts.st_ino, !there, whole, "", NULL, 0);
    pthread_mutex_unlock(&lock);
    return fd;
}

#define OPEN(name, ...)                                          \
    int name(__VA_ARGS__, ...) {                                 \
        mode_t mode = 0;                                         \
        if (flags & (O_CREAT | __O_TMPFILE)) {                   \
            va_list more;                                        \
            va_start(more, flags);                               \
            mode = va_arg(more, mode_t);                         \
            va_end(more);                                        \
        }

OPEN(open, const char *path, int flags) return open_at(AT_FDCWD, path, flags, mode); }
OPEN(open64, const char *path, int flags) return open_at(AT_FDCWD, path, flags | O_LARGEFILE, mode); }
OPEN(openat, int folder, const char *path, int flags) return open_at(folder, path, flags, mode); }
OPEN(openat64, int folder, const char *path, int flags) return open_at(folder, path, flags | O_LARGEFILE, mode); }
int creat(const char *path, mode_t mode) { return open_at(AT_FDCWD, path, O_CREAT | O_WRONLY | O_TRUNC, mode); }

/* One write; `offset` is -1 for the file's own position. */
static ssize_t write_at(int fd, const void *data, size_t size, off_t offset) {
    REAL(ssize_t, pwrite, int, const void *, size_t, off_t);
    char path[PATH_MAX];
    struct stat facts;
    if (!tracked(fd, path, &facts)) return offset < 0 ? raw_write(fd, data, size) : real_pwrite(fd, data, size, offset);
    pthread_mutex_lock(&lock);
    int error = fault(1, 1, path);
    if (error == HALF) size = size > 1 ? size / 2 : size;
    if (error > 0) {
        pthread_mutex_unlock(&lock);
        errno = error;
        return -1;
    }
    ssize_t done = offset < 0 ? raw_write(fd, data, size) : real_pwrite(fd, data, size, offset);
    off_t place = offset < 0 ? lseek(fd, 0, SEEK_CUR) - done : offset;
    if (done > 0) record('w', facts.st_ino, place, path, "", data, done);
    pthread_mutex_unlock(&lock);
    return done;
}

ssize_t write(int fd, const void *data, size_t size) { return armed ? write_at(fd, data, size, -1) : raw_write(fd, data, size); }
ssize_t pwrite(int fd, const void *data, size_t size, off_t offset) { return write_at(fd, data, size, offset); }
ssize_t pwrite64(int fd, const void *data, size_t size, off_t offset) { return write_at(fd, data, size, offset); }

ssize_t writev(int fd, const struct iovec *parts, int count) {
    REAL(ssize_t, writev, int, const struct iovec *, int);
    char path[PATH_MAX];
    struct stat facts;
    if (!tracked(fd, path, &facts)) return real_writev(fd, parts, count);
    return count ? write_at(fd, parts[0].iov_base, parts[0].iov_len, -1) : 0;
}

#define READ(name, tail, ...)                                    \
    ssize_t name(__VA_ARGS__) {                                  \
        REAL(ssize_t, name, __VA_ARGS__);                        \
        char path[PATH_MAX];                                     \
        struct stat facts;                                       \
        if (tracked(fd, path, &facts)) {                         \
            pthread_mutex_lock(&lock);                           \
            FAIL_IF(0, path);                                    \
            pthread_mutex_unlock(&lock);                         \
        }                                                        \
        return real_##name tail;                                 \
    }

READ(read, (fd, data, size), int fd, void *data, size_t size)
READ(pread, (fd, data, size, offset), int fd, void *data, size_t size, off_t offset)
READ(pread64, (fd, data, size, offset), int fd, void *data, size_t size, off_t offset)

static int sync_fd(int fd, int (*real)(int)) {
    char path[PATH_MAX];
    struct stat facts;
    if (!tracked(fd, path, &facts)) return real(fd);
    pthread_mutex_lock(&lock);
    FAIL_IF(0, path);
    record('s', facts.st_ino, S_ISDIR(facts.st_mode), path, "", NULL, 0);
    pthread_mutex_unlock(&lock);
    return 0;
}

int fsync(int fd) {
    REAL(int, fsync, int);
    return sync_fd(fd, real_fsync);
}

int fdatasync(int fd) {
    REAL(int, fdatasync, int);
    return sync_fd(fd, real_fdatasync);
}

int close(int fd) {
    REAL(int, close, int);
    char path[PATH_MAX];
    struct stat facts;
    if (!tracked(fd, path, &facts) || !S_ISREG(facts.st_mode) || (fcntl(fd, F_GETFL) & O_ACCMODE) == O_RDONLY)
        return real_close(fd);
    pthread_mutex_lock(&lock);
    real_close(fd);
    FAIL_IF(0, path);
    pthread_mutex_unlock(&lock);
    return 0;
}

static int truncate_fd(int fd, off_t size) {
    REAL(int, ftruncate, int, off_t);
    char path[PATH_MAX];
    struct stat facts;
    if (!tracked(fd, path, &facts)) return real_ftruncate(fd, size);
    pthread_mutex_lock(&lock);
    FAIL_IF(size > facts.st_size, path);
    int done = real_ftruncate(fd, size);
    if (!done) record('t', facts.st_ino, size, path, "", NULL, 0);
    pthread_mutex_unlock(&lock);
    return done;
}

int ftruncate(int fd, off_t size) { return truncate_fd(fd, size); }
int ftruncate64(int fd, off_t size) { return truncate_fd(fd, size); }

#define CHANGE(op, space, call)                                  \
    pthread_mutex_lock(&lock);                                   \
    FAIL_IF(space, one);                                         \
    int done = call;                                             \
    if (!done) record(op, 0, 0, one, other, NULL, 0);            \
    pthread_mutex_unlock(&lock);                                 \
    return done

#define ONE_PATH(folder, path)                                   \
    char one[PATH_MAX], *other = "";                             \
    absolute(folder, path, one)

int mkdirat(int folder, const char *path, mode_t mode) {
    REAL(int, mkdirat, int, const char *, mode_t);
    ONE_PATH(folder, path);
    if (!below(one)) return real_mkdirat(folder, path, mode);
    CHANGE('d', 1, real_mkdirat(folder, path, mode));
}

int mkdir(const char *path, mode_t mode) { return mkdirat(AT_FDCWD, path, mode); }

int unlinkat(int folder, const char *path, int flags) {
    REAL(int, unlinkat, int, const char *, int);
    ONE_PATH(folder, path);
    if (!below(one)) return real_unlinkat(folder, path, flags);
    CHANGE('u', 0, real_unlinkat(folder, path, flags));
}

int unlink(const char *path) { return unlinkat(AT_FDCWD, path, 0); }
int rmdir(const char *path) { return unlinkat(AT_FDCWD, path, AT_REMOVEDIR); }

int renameat2(int from, const char *old, int to, const char *new, unsigned flags) {
    REAL(int, renameat2, int, const char *, int, const char *, unsigned);
    char one[PATH_MAX], other[PATH_MAX];
    absolute(from, old, one), absolute(to, new, other);
    if (!below(one) && !below(other)) return real_renameat2(from, old, to, new, flags);
    CHANGE(flags & RENAME_EXCHANGE ? 'x' : 'r', 0, real_renameat2(from, old, to, new, flags));
}

int renameat(int from, const char *old, int to, const char *new) { return renameat2(from, old, to, new, 0); }
int rename(const char *old, const char *new) { return renameat2(AT_FDCWD, old, AT_FDCWD, new, 0); }

int linkat(int from, const char *old, int to, const char *new, int flags) {
    REAL(int, linkat, int, const char *, int, const char *, int);
    char one[PATH_MAX], other[PATH_MAX];
    absolute(from, old, one), absolute(to, new, other);
    if (!below(other)) return real_linkat(from, old, to, new, flags);
    CHANGE('l', 1, real_linkat(from, old, to, new, flags));
}

int link(const char *old, const char *new) { return linkat(AT_FDCWD, old, AT_FDCWD, new, 0); }

DIR *opendir(const char *path) {
    REAL(DIR *, opendir, const char *);
    ONE_PATH(AT_FDCWD, path);
    (void)other;
    if (below(one)) {
        pthread_mutex_lock(&lock);
        int error = fault(0, 0, one);
        pthread_mutex_unlock(&lock);
        if (error) {
            errno = error;
            return NULL;
        }
    }
    return real_opendir(path);
}

/* Copies inside the kernel are refused, so that callers fall back to reading and writing. */
ssize_t sendfile(int out, int in, off_t *offset, size_t size) {
    REAL(ssize_t, sendfile, int, int, off_t *, size_t);
    if (!armed) return real_sendfile(out, in, offset, size);
    errno = EINVAL;
    return -1;
}

ssize_t sendfile64(int out, int in, off_t *offset, size_t size) { return sendfile(out, in, offset, size); }

ssize_t copy_file_range(int in, off64_t *from, int out, off64_t *to, size_t size, unsigned flags) {
    REAL(ssize_t, copy_file_range, int, off64_t *, int, off64_t *, size_t, unsigned);
    if (!armed) return real_copy_file_range(in, from, out, to, size, flags);
    errno = EXDEV;
    return -1;
}

/* Changes through these are not seen; they are counted, so that a test can refuse to claim that it saw everything. */
static void *map(int fd, int protection, int flags, void *(*real)(void *, size_t, int, int, int, off_t), void *place, size_t size, off_t offset) {
    char path[PATH_MAX];
    struct stat facts;
    if (fd >= 0 && (protection & PROT_WRITE) && (flags & MAP_SHARED) && tracked(fd, path, &facts)) counts[UNSEEN]++;
    return real(place, size, protection, flags, fd, offset);
}

void *mmap(void *place, size_t size, int protection, int flags, int fd, off_t offset) {
    REAL(void *, mmap, void *, size_t, int, int, int, off_t);
    return map(fd, protection, flags, real_mmap, place, size, offset);
}

void *mmap64(void *place, size_t size, int protection, int flags, int fd, off_t offset) {
    REAL(void *, mmap, void *, size_t, int, int, int, off_t);
    return map(fd, protection, flags, real_mmap, place, size, offset);
}

static FILE *open_buffered(const char *path, const char *mode, FILE *(*real)(const char *, const char *)) {
    ONE_PATH(AT_FDCWD, path);
    (void)other;
    if (below(one) && strpbrk(mode, "wa+")) counts[UNSEEN]++;
    return real(path, mode);
}

FILE *fopen(const char *path, const char *mode) {
    REAL(FILE *, fopen, const char *, const char *);
    return open_buffered(path, mode, real_fopen);
}

FILE *fopen64(const char *path, const char *mode) {
    REAL(FILE *, fopen64, const char *, const char *);
    return open_buffered(path, mode, real_fopen64);
}
