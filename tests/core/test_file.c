#include "core/file.h"
#include "core/mem.h"
#include "tests/suite.h"

#include <dirent.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char folder[64];

static void enter(void)
{
    snprintf(folder, sizeof(folder), "/tmp/ballast-test-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(folder));
    ck_assert_int_eq(chdir(folder), 0);
}

/* Remove all that is in the folder; the number of entries. */
static int leave(void)
{
    DIR *d = opendir(".");
    struct dirent *entry;
    int n = 0;

    while ((entry = readdir(d)))
        if (entry->d_name[0] != '.') {
            n++;
            if (unlink(entry->d_name))
                rmdir(entry->d_name);
        }
    closedir(d);
    ck_assert_int_eq(chdir("/"), 0);
    rmdir(folder);
    return n;
}

START_TEST(what_was_written_reads_back)
{
    struct err e = {0};
    char *text;
    size_t len;

    enter();
    ck_assert_msg(file_write("a", "x\0y", 3, &e) == 0, "%s", e.msg);
    ck_assert_int_eq(file_write("a", "new", 3, &e), 0);
    ck_assert_int_eq(file_read("a", 100, &text, &len, &e), 0);
    ck_assert_uint_eq(len, 3);
    ck_assert_str_eq(text, "new");
    mem_free(text);
    ck_assert_int_eq(leave(), 1); /* no temporary file stays */
}
END_TEST

START_TEST(an_aborted_write_leaves_the_old_file)
{
    struct err e = {0};
    struct file_out o;
    char *text;
    size_t len;

    enter();
    ck_assert_int_eq(file_write("a", "old", 3, &e), 0);
    ck_assert_int_eq(file_out_open(&o, "a", &e), 0);
    fprintf(o.f, "half");
    file_out_abort(&o);
    file_out_abort(&o); /* harmless */
    ck_assert_int_eq(file_read("a", 100, &text, &len, &e), 0);
    ck_assert_str_eq(text, "old");
    mem_free(text);
    ck_assert_int_eq(leave(), 1);
}
END_TEST

START_TEST(a_link_is_followed_and_the_mode_kept)
{
    struct err e = {0};
    struct stat st;

    enter();
    ck_assert_int_eq(file_write("a", "old", 3, &e), 0);
    ck_assert_int_eq(chmod("a", 0640), 0);
    ck_assert_int_eq(symlink("a", "link"), 0);
    ck_assert_int_eq(file_write("link", "through", 7, &e), 0);
    ck_assert_int_eq(lstat("link", &st), 0);
    ck_assert(S_ISLNK(st.st_mode));
    ck_assert_int_eq(stat("a", &st), 0);
    ck_assert_int_eq(st.st_size, 7);
    ck_assert_int_eq(st.st_mode & 0777, 0640);
    ck_assert_int_eq(leave(), 2);
}
END_TEST

START_TEST(devices_are_written_directly)
{
    struct err e = {0};
    struct stat st;

    ck_assert_msg(file_write("/dev/null", "x", 1, &e) == 0, "%s", e.msg);
    ck_assert_int_eq(stat("/dev/null", &st), 0);
    ck_assert(S_ISCHR(st.st_mode));
}
END_TEST

START_TEST(a_full_disk_is_an_external_failure)
{
    struct err e = {0};
    struct stat st;

    if (stat("/dev/full", &st))
        return;
    ck_assert_int_eq(file_write("/dev/full", "x", 1, &e), -1);
    ck_assert_int_eq(e.code, ERR_EXTERNAL);
    ck_assert_ptr_nonnull(strstr(e.msg, "'/dev/full': No space left"));
}
END_TEST

START_TEST(refusals_name_the_path_and_the_reason)
{
    struct err e = {0};
    char *text;
    size_t len;

    enter();
    ck_assert_int_eq(file_read("absent", 100, &text, &len, &e), -1);
    ck_assert_int_eq(e.code, ERR_IO);
    ck_assert_str_eq(e.msg, "'absent': No such file or directory");
    ck_assert_int_eq(file_read(".", 100, &text, &len, &e), -1);
    ck_assert_str_eq(e.msg, "'.' is a folder, expected a file");
    ck_assert_int_eq(file_write("no/such", "x", 1, &e), -1);
    ck_assert_int_eq(e.code, ERR_EXTERNAL);
    ck_assert_str_eq(e.msg, "cannot write 'no/such': No such file or directory");
    ck_assert_int_eq(file_write(".", "x", 1, &e), -1);
    ck_assert_str_eq(e.msg, "cannot write '.': Is a directory");
    ck_assert_int_eq(file_write("", "x", 1, &e), -1);
    ck_assert_int_eq(file_write("big", "12345", 5, &e), 0);
    ck_assert_int_eq(file_read("big", 4, &text, &len, &e), -1);
    ck_assert_str_eq(e.msg, "'big' is larger than 4 bytes");
    ck_assert_int_eq(file_read("big", 5, &text, &len, &e), 0);
    mem_free(text);
    leave();
}
END_TEST

START_TEST(a_pipe_reads_to_its_end)
{
    struct err e = {0};
    char path[32], *text;
    size_t len;
    int fd[2];

    ck_assert_int_eq(pipe(fd), 0);
    ck_assert_int_eq(write(fd[1], "{}", 2), 2);
    close(fd[1]);
    snprintf(path, sizeof(path), "/dev/fd/%d", fd[0]);
    ck_assert_msg(file_read(path, 100, &text, &len, &e) == 0, "%s", e.msg);
    ck_assert_str_eq(text, "{}");
    mem_free(text);
    close(fd[0]);
}
END_TEST

SUITE_MAIN("core/file", what_was_written_reads_back, an_aborted_write_leaves_the_old_file,
           a_link_is_followed_and_the_mode_kept, devices_are_written_directly,
           a_full_disk_is_an_external_failure, refusals_name_the_path_and_the_reason,
           a_pipe_reads_to_its_end)
