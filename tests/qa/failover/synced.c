/* Loaded before the C library (LD_PRELOAD): for every file that this process flushes to the disk, the file with the
   same name and `.synced` holds how many bytes of it the disk has. A power cut keeps those and no more. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

static int flushed(const char *name, int file) {
    int (*flush)(int) = (int (*)(int))dlsym(RTLD_NEXT, name);
    struct stat before;
    char link[64], path[4096], size[32];
    int known = fstat(file, &before) == 0 && S_ISREG(before.st_mode); /* what is written meanwhile may be missing */
    int result = flush(file);
    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    ssize_t length = readlink(link, path, sizeof path - 8);
    if (result == 0 && known && length > 0) {
        snprintf(path + length, 8, ".synced");
        int note = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
        if (note >= 0) {
            int digits = snprintf(size, sizeof size, "%020lld", (long long)before.st_size);
            (void)!pwrite(note, size, digits, 0);
            close(note);
        }
    }
    return result;
}

int fdatasync(int file) { return flushed("fdatasync", file); }

int fsync(int file) { return flushed("fsync", file); }
