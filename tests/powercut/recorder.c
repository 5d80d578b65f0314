/*
 * Writes down what a process does to the files below POWERCUT_ROOT, in the order in which it does it: LD_PRELOAD.
 *
 * Each process has a journal of its own in the directory POWERCUT_JOURNALS, named by the time. A record is a header and the bytes behind it. An operation and its record are one
 * step under a lock, so the order of records is the order of operations. A sync has two: when it begins, and when
 * it is over, before its caller hears of it. POWERCUT_SYNC_MICROSECONDS lets every sync take up to that much longer.
 *
 *     kind u32 | pid i32 | file i32 | other i32 | offset i64 | length i64 | nanoseconds u64 | bytes u32 | bytes of 2nd u32
 *
 * POWERCUT_COARSE=1: times of files and directories have steps of two seconds, as on FAT.
 */
#define _GNU_SOURCE
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
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

enum kind { BEGIN, OPEN, CLOSE, WRITE, ZEROS, TRUNCATE, SYNC_BEGINS, SYNC_ENDS, RENAME, UNLINK, LINK, MKDIR, RMDIR };

struct header {
    uint32_t kind;
    int32_t pid, file, other;
    int64_t offset, length;
    uint64_t nanoseconds;
    uint32_t first, second;
};

#define FILES 65536
static char watched[FILES]; /* descriptors of files and directories below the root */
static char root[PATH_MAX];
static size_t root_length;
static int journal = -1, coarse;
static long slower;
static int32_t syncs;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

#define REAL(result, name, ...)                                                                                        \
    static result (*real)(__VA_ARGS__);                                                                                \
    if (!real)                                                                                                         \
    real = dlsym(RTLD_NEXT, name)

static void note(enum kind kind, int file, int other, int64_t offset, int64_t length, const void *first, uint32_t size,
                 const char *second)
{
    struct timespec now;
    struct header header;
    clock_gettime(CLOCK_MONOTONIC, &now);
    memset(&header, 0, sizeof header);
    header.kind = kind, header.pid = (int32_t)syscall(SYS_getpid), header.file = file, header.other = other;
    header.offset = offset, header.length = length;
    header.nanoseconds = (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
    header.first = size, header.second = second ? (uint32_t)strlen(second) : 0;
    struct iovec parts[3] = {{&header, sizeof header}, {(void *)first, size}, {(void *)second, header.second}};
    if (syscall(SYS_writev, journal, parts, 3) != (long)(sizeof header + size + header.second))
        abort(); /* a journal with a hole would show a disk that never was */
}

__attribute__((constructor)) static void begin(void)
{
    const char *folder = getenv("POWERCUT_JOURNALS"), *below = getenv("POWERCUT_ROOT");
    const char *delay = getenv("POWERCUT_SYNC_MICROSECONDS");
    coarse = getenv("POWERCUT_COARSE") != NULL;
    slower = delay ? atol(delay) : 0;
    if (!folder || !below || !realpath(below, root))
        return;
    struct timespec now;
    char path[PATH_MAX];
    clock_gettime(CLOCK_MONOTONIC, &now);
    snprintf(path, sizeof path, "%s/%020lld-%d", folder, now.tv_sec * 1000000000ll + now.tv_nsec, getpid());
    root_length = strlen(root);
    int file = (int)syscall(SYS_openat, AT_FDCWD, path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    journal = fcntl(file, F_DUPFD_CLOEXEC, 900); /* out of the way of those who close what they know */
    syscall(SYS_close, file);
    note(BEGIN, -1, -1, 0, 0, NULL, 0, NULL);
}

/* The path that a name means, without asking whether it exists; NULL where it is not below the root. */
static const char *below(int directory, const char *name, char *path)
{
    if (journal < 0 || !name)
        return NULL;
    size_t length = 0;
    if (*name != '/') {
        char link[64];
        if (directory == AT_FDCWD)
            strcpy(link, "/proc/self/cwd");
        else
            sprintf(link, "/proc/self/fd/%d", directory);
        long found = syscall(SYS_readlinkat, AT_FDCWD, link, path, PATH_MAX - 1);
        if (found < 0)
            return NULL;
        length = (size_t)found;
        path[length++] = '/';
    }
    if (length + strlen(name) >= PATH_MAX)
        return NULL;
    strcpy(path + length, name);
    if (strncmp(path, root, root_length) || (path[root_length] != '/' && path[root_length]))
        return NULL;
    return path + root_length;
}

static int is_watched(int file)
{
    return journal >= 0 && file >= 0 && file < FILES && watched[file];
}

static int opened(int directory, const char *name, int flags, mode_t mode)
{
    char buffer[PATH_MAX];
    const char *path = below(directory, name, buffer);
    if (!path)
        return (int)syscall(SYS_openat, directory, name, flags, mode);
    pthread_mutex_lock(&lock);
    int file = (int)syscall(SYS_openat, directory, name, flags, mode), error = errno;
    if (file >= 0 && file < FILES) {
        watched[file] = 1;
        note(OPEN, file, -1, flags, 0, path, (uint32_t)strlen(path), NULL);
    }
    pthread_mutex_unlock(&lock);
    errno = error;
    return file;
}

#define OPENING(name)                                                                                                  \
    int name(const char *path, int flags, ...)                                                                         \
    {                                                                                                                  \
        va_list rest;                                                                                                  \
        va_start(rest, flags);                                                                                         \
        mode_t mode = flags & (O_CREAT | __O_TMPFILE) ? va_arg(rest, mode_t) : 0;                                      \
        va_end(rest);                                                                                                  \
        return opened(AT_FDCWD, path, flags, mode);                                                                    \
    }
#define OPENING_AT(name)                                                                                               \
    int name(int directory, const char *path, int flags, ...)                                                          \
    {                                                                                                                  \
        va_list rest;                                                                                                  \
        va_start(rest, flags);                                                                                         \
        mode_t mode = flags & (O_CREAT | __O_TMPFILE) ? va_arg(rest, mode_t) : 0;                                      \
        va_end(rest);                                                                                                  \
        return opened(directory, path, flags, mode);                                                                   \
    }
OPENING(open)
OPENING(open64)
OPENING_AT(openat)
OPENING_AT(openat64)

int close(int file)
{
    if (!is_watched(file))
        return (int)syscall(SYS_close, file);
    pthread_mutex_lock(&lock);
    watched[file] = 0;
    note(CLOSE, file, -1, 0, 0, NULL, 0, NULL);
    int result = (int)syscall(SYS_close, file), error = errno;
    pthread_mutex_unlock(&lock);
    errno = error;
    return result;
}

static void note_write(int file, const void *data, size_t size, int64_t offset)
{
    const char *bytes = data;
    if (size && !*bytes && !memcmp(bytes, bytes + 1, size - 1))
        note(ZEROS, file, -1, offset, (int64_t)size, NULL, 0, NULL);
    else
        note(WRITE, file, -1, offset, (int64_t)size, data, (uint32_t)size, NULL);
}

static ssize_t written(int file, const struct iovec *parts, int count, int64_t offset)
{
    if (!is_watched(file))
        return offset < 0 ? syscall(SYS_writev, file, parts, count)
                          : syscall(SYS_pwritev, file, parts, count, (long)offset, 0L);
    pthread_mutex_lock(&lock);
    ssize_t size = offset < 0 ? syscall(SYS_writev, file, parts, count)
                              : syscall(SYS_pwritev, file, parts, count, (long)offset, 0L);
    int error = errno;
    int64_t at = offset < 0 && size > 0 ? syscall(SYS_lseek, file, 0L, SEEK_CUR) - size : offset;
    ssize_t left = size;
    for (int part = 0; part < count && left > 0; part++) {
        size_t here = parts[part].iov_len < (size_t)left ? parts[part].iov_len : (size_t)left;
        note_write(file, parts[part].iov_base, here, at);
        at += (int64_t)here;
        left -= (ssize_t)here;
    }
    pthread_mutex_unlock(&lock);
    errno = error;
    return size;
}

ssize_t write(int file, const void *data, size_t size)
{
    if (!is_watched(file))
        return syscall(SYS_write, file, data, size);
    struct iovec part = {(void *)data, size};
    return written(file, &part, 1, -1);
}

ssize_t writev(int file, const struct iovec *parts, int count) { return written(file, parts, count, -1); }

ssize_t pwrite(int file, const void *data, size_t size, off_t offset)
{
    struct iovec part = {(void *)data, size};
    return written(file, &part, 1, offset);
}

ssize_t pwrite64(int file, const void *data, size_t size, off64_t offset) { return pwrite(file, data, size, offset); }

ssize_t pwritev(int file, const struct iovec *parts, int count, off_t offset)
{
    return written(file, parts, count, offset);
}

int ftruncate(int file, off_t length)
{
    if (!is_watched(file))
        return (int)syscall(SYS_ftruncate, file, length);
    pthread_mutex_lock(&lock);
    int result = (int)syscall(SYS_ftruncate, file, length), error = errno;
    if (!result)
        note(TRUNCATE, file, -1, 0, length, NULL, 0, NULL);
    pthread_mutex_unlock(&lock);
    errno = error;
    return result;
}

int ftruncate64(int file, off64_t length) { return ftruncate(file, length); }

static int synced(int file, long call)
{
    if (!is_watched(file))
        return (int)syscall(call, file);
    pthread_mutex_lock(&lock);
    int32_t number = ++syncs;
    note(SYNC_BEGINS, file, number, 0, 0, NULL, 0, NULL);
    pthread_mutex_unlock(&lock);
    int result = (int)syscall(call, file), error = errno;
    if (slower)
        usleep((useconds_t)((long)(number * 2654435761u >> 8) % slower));
    if (!result) {
        pthread_mutex_lock(&lock);
        note(SYNC_ENDS, file, number, 0, 0, NULL, 0, NULL);
        pthread_mutex_unlock(&lock);
    }
    errno = error;
    return result;
}

int fsync(int file) { return synced(file, SYS_fsync); }
int fdatasync(int file) { return synced(file, SYS_fdatasync); }

/* One call that changes names: of one path, or of two. */
static int named(enum kind kind, int from_directory, const char *from, int to_directory, const char *to, long call,
                 long flags)
{
    char one[PATH_MAX], two[PATH_MAX];
    const char *first = below(from_directory, from, one), *second = to ? below(to_directory, to, two) : NULL;
    pthread_mutex_lock(&lock);
    long result = to ? syscall(call, from_directory, from, to_directory, to, flags)
                     : syscall(call, from_directory, from, flags);
    int error = errno;
    if (!result && (first || second))
        note(kind, -1, -1, 0, 0, first, first ? (uint32_t)strlen(first) : 0, second);
    pthread_mutex_unlock(&lock);
    errno = error;
    return (int)result;
}

int rename(const char *from, const char *to) { return named(RENAME, AT_FDCWD, from, AT_FDCWD, to, SYS_renameat2, 0); }
int renameat(int at, const char *from, int other, const char *to)
{
    return named(RENAME, at, from, other, to, SYS_renameat2, 0);
}
int link(const char *from, const char *to) { return named(LINK, AT_FDCWD, from, AT_FDCWD, to, SYS_linkat, 0); }
int linkat(int at, const char *from, int other, const char *to, int flags)
{
    return named(LINK, at, from, other, to, SYS_linkat, flags);
}
int unlink(const char *path) { return named(UNLINK, AT_FDCWD, path, 0, NULL, SYS_unlinkat, 0); }
int rmdir(const char *path) { return named(RMDIR, AT_FDCWD, path, 0, NULL, SYS_unlinkat, AT_REMOVEDIR); }
int unlinkat(int at, const char *path, int flags)
{
    return named(flags & AT_REMOVEDIR ? RMDIR : UNLINK, at, path, 0, NULL, SYS_unlinkat, flags);
}
int mkdir(const char *path, mode_t mode) { return named(MKDIR, AT_FDCWD, path, 0, NULL, SYS_mkdirat, (long)mode); }
int mkdirat(int at, const char *path, mode_t mode) { return named(MKDIR, at, path, 0, NULL, SYS_mkdirat, (long)mode); }

static int stepped(struct stat *found, int result)
{
    if (coarse && !result) {
        found->st_mtim.tv_sec &= ~1L, found->st_ctim.tv_sec &= ~1L, found->st_atim.tv_sec &= ~1L;
        found->st_mtim.tv_nsec = found->st_ctim.tv_nsec = found->st_atim.tv_nsec = 0;
    }
    return result;
}

int fstatat(int directory, const char *path, struct stat *found, int flags)
{
    REAL(int, "fstatat", int, const char *, struct stat *, int);
    return stepped(found, real(directory, path, found, flags));
}
int stat(const char *path, struct stat *found) { return fstatat(AT_FDCWD, path, found, 0); }
int lstat(const char *path, struct stat *found) { return fstatat(AT_FDCWD, path, found, AT_SYMLINK_NOFOLLOW); }
int fstat(int file, struct stat *found)
{
    REAL(int, "fstat", int, struct stat *);
    return stepped(found, real(file, found));
}
int fstatat64(int directory, const char *path, struct stat64 *found, int flags)
{
    return fstatat(directory, path, (struct stat *)found, flags);
}
int stat64(const char *path, struct stat64 *found) { return stat(path, (struct stat *)found); }
int lstat64(const char *path, struct stat64 *found) { return lstat(path, (struct stat *)found); }
int fstat64(int file, struct stat64 *found) { return fstat(file, (struct stat *)found); }
