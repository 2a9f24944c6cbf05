#include "cli/nccl_line.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static char *skip_blanks(char *s)
{
    while (*s == ' ' || *s == '\t' || *s == '\r')
        s++;
    return s;
}

/* "[1,0]<stdout>:" and "Thu Mar 14 10:11:12 2024<stdout>:": whatever stands before the name of the
 * stream is the launcher's. */
static char *behind_stream(char *s)
{
    static const char *const names[] = {"<stdout>:", "<stderr>:", "<stddiag>:"};

    for (int i = 0; i < 3; i++) {
        char *at = strstr(s, names[i]);

        if (at && at - s < 200)
            return at + strlen(names[i]);
    }
    return s;
}

/* Time of day, "10:11:12", "10:11:12.123456Z", "10:11:12+00:00"; NULL when there is none. */
static char *behind_clock(char *s)
{
    for (int i = 0; i < 8; i++)
        if (i % 3 == 2 ? s[i] != ':' : !isdigit((unsigned char)s[i]))
            return NULL;
    s += 8;
    return s + strspn(s, "0123456789.,Z+-:");
}

/* "2024-03-14T10:11:12.123Z ", "2024-03-14 10:11:12,123 "; else where it was. */
static char *behind_date(char *s)
{
    char *end;

    for (int i = 0; i < 10; i++)
        if (i == 4 || i == 7 ? s[i] != '-' && s[i] != '/' : !isdigit((unsigned char)s[i]))
            return s;
    if (s[10] != 'T' && s[10] != ' ')
        return s;
    end = behind_clock(s + 11);
    return end ? end : s;
}

/* "[0] ", "[node-1:0] ". */
static char *behind_brackets(char *s)
{
    char *end = *s == '[' ? strchr(s, ']') : NULL;

    return end && end - s < 64 ? end + 1 : s;
}

/* "0: ", " 12: ". */
static char *behind_rank(char *s)
{
    char *end = s;

    while (isdigit((unsigned char)*end))
        end++;
    return end > s && end - s < 8 && *end == ':' && (end[1] == ' ' || !end[1]) ? end + 1 : s;
}

char *nccl_line_start(char *line)
{
    char *s = skip_blanks(line), *before;

    s = skip_blanks(behind_stream(s));
    do {
        before = s;
        s = skip_blanks(behind_date(s));
        s = skip_blanks(behind_brackets(s));
        s = skip_blanks(behind_rank(s));
    } while (s != before);
    return s;
}

void nccl_line_split(char *line, struct nccl_line_words *w)
{
    w->n = 0;
    for (char *s = skip_blanks(line); *s && w->n < NCCL_LINE_WORDS; s = skip_blanks(s)) {
        w->at[w->n++] = s;
        s += strcspn(s, " \t\r");
        if (*s && w->n < NCCL_LINE_WORDS)
            *s++ = 0;
    }
}

bool nccl_number_parse(const char *word, struct nccl_number *out)
{
    const char *s = word;
    int digits = 0, decimals = 0;
    long exponent = 0;

    for (; isdigit((unsigned char)*s); s++)
        digits++;
    if (*s == '.')
        for (s++; isdigit((unsigned char)*s); s++)
            decimals++;
    if (!(digits + decimals))
        return false;
    if (*s == 'e' || *s == 'E') {
        char *end;

        exponent = strtol(s + 1, &end, 10);
        if (end == s + 1 || exponent < -300 || exponent > 300)
            return false;
        s = end;
    }
    if (*s)
        return false;
    out->value = strtod(word, NULL);
    out->half = 0.5 * pow(10, (double)exponent - decimals);
    return isfinite(out->value);
}

bool nccl_count_parse(const char *word, uint64_t *out)
{
    char *end;

    if (!isdigit((unsigned char)*word) || strlen(word) > 16)
        return false;
    *out = strtoull(word, &end, 10);
    return !*end && *out <= UINT64_C(1) << 50;
}
