/* build_id.c - which build of the library this is: the linker's hash of all that is in it.
 *
 * A version number does not change with every edit of the code generator; this does.  It is what
 * makes code that another build left in the cache a miss. */
#define _GNU_SOURCE /* dl_iterate_phdr */
#include <elf.h>
#include <link.h>

#include "codegen/cpu.h"

typedef struct search {
  char *text;
  size_t bytes;
  bool found;
} search;

/* Notes of a segment: name and contents are padded to four bytes each. */
static bool read_notes(const char *at, size_t bytes, search *s) {
  ElfW(Nhdr) note;
  while (bytes >= sizeof note) {
    memcpy(&note, at, sizeof note);
    size_t name = ((size_t)note.n_namesz + 3) & ~(size_t)3;
    size_t contents = ((size_t)note.n_descsz + 3) & ~(size_t)3;
    if (name > bytes - sizeof note || contents > bytes - sizeof note - name) return false;
    const char *text = at + sizeof note, *id = text + name;
    if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == 4 && !memcmp(text, "GNU", 4)) {
      for (size_t i = 0; i < note.n_descsz && 2 * i + 3 <= s->bytes; i++)
        snprintf(s->text + 2 * i, 3, "%02x", (unsigned char)id[i]);
      return note.n_descsz > 0;
    }
    at = id + contents;
    bytes -= sizeof note + name + contents;
  }
  return false;
}

static bool holds(const struct dl_phdr_info *info, uintptr_t address) {
  for (int i = 0; i < info->dlpi_phnum; i++) {
    const ElfW(Phdr) *p = &info->dlpi_phdr[i];
    if (p->p_type == PT_LOAD && address - (info->dlpi_addr + p->p_vaddr) < p->p_memsz) return true;
  }
  return false;
}

static int look(struct dl_phdr_info *info, size_t bytes, void *user) {
  search *s = user;
  (void)bytes;
  if (!holds(info, (uintptr_t)&cg_build_id)) return 0;
  for (int i = 0; i < info->dlpi_phnum && !s->found; i++) {
    const ElfW(Phdr) *p = &info->dlpi_phdr[i];
    const char *at = (const char *)(info->dlpi_addr + p->p_vaddr);
    if (p->p_type == PT_NOTE) s->found = read_notes(at, p->p_memsz, s);
  }
  return 1;
}

bool cg_build_id(char *text, size_t bytes) {
  search s = {text, bytes, false};
  *text = 0;
  dl_iterate_phdr(look, &s);
  return s.found;
}
