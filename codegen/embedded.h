/* embedded.h - kernel files carried inside the library (made by embed.cmake); the table ends with a
 * NULL name. */
#ifndef SPC_CODEGEN_EMBEDDED_H
#define SPC_CODEGEN_EMBEDDED_H
enum { CG_MOST_EMBEDDED = 128 }; /* asserted where the table is made */
typedef struct cg_embedded {
  const char *name, *text;
} cg_embedded;
extern const cg_embedded cg_embedded_files[];
extern const char cg_embedded_digest[]; /* SHA-256 of all names and texts, hexadecimal */
#endif
