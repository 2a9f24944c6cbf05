/* core/json_inner.h - what reading (json.c) and writing (json_write.c) share. */
#ifndef BALLAST_CORE_JSON_INNER_H
#define BALLAST_CORE_JSON_INNER_H

/* Before any call of cJSON's that allocates. */
void json_hooks(void);

#endif
