/* help.c - `spc help` and `spc completions`: both from the tables. */
#include "driver/driver.h"

static void print_overview(void) {
  puts("spc: kernels for tensors whose zeros are only known at run time\n\n"
       "  spc compile ffn.spx                                 check it, choose, compile; one line "
       "a kernel\n"
       "  spc run ffn.spx --bind x=x.npy --bind W1=rand:1 --bind W2=rand:2 --out y=y.npy\n"
       "  spc explain ffn.spx -D T=2048                       why these kernels, and what was "
       "rejected\n"
       "  spc bench ffn.spx -D T=256 --svg ffn.svg            timed against its dense twin\n\n"
       "commands");
  for (int i = 0; i < drv_command_count; i++)
    printf("  %-12s %-14s %s\n", drv_command_rows[i].name, drv_command_rows[i].arguments,
           drv_command_rows[i].meaning);
  puts("  --version    [--json]       what this build is\n\n"
       "`spc help COMMAND` lists its options.  Exit codes: 0 ok, 1 errors in your input, 2 usage, "
       "3 a check\n"
       "failed, 4 target or tool chain not there, 5 file error, 70 internal error or out of "
       "memory.");
}

int drv_help(drv_session *s) {
  if (!s->arguments.items.count) {
    print_overview();
    return 0;
  }
  const char *name = s->arguments.items.at[0];
  for (int i = 0; i < drv_command_count; i++) {
    const drv_command_row *row = &drv_command_rows[i];
    if (strcmp(row->name, name)) continue;
    printf("spc %s %s\n  %s\n\n", row->name, row->arguments, row->meaning);
    for (int o = 0; o < drv_option_count; o++) {
      const drv_option_row *option = &drv_option_rows[o];
      if (!strchr(option->commands, row->letter)) continue;
      char left[64];
      bool joins = option->name[1] == '-' && option->value[0];
      snprintf(left, sizeof left, "%s%s%s", option->name,
               joins              ? "="
               : option->value[0] ? " "
                                  : "",
               option->value);
      printf("  %-34s %s\n", left, option->meaning);
    }
    return 0;
  }
  return drv_usage_error(s, "no command `%s`; `spc help` lists them", name);
}

/* ---- completions ----------------------------------------------------------------------------- */
static void bash(void) {
  puts("# bash completion for spc: source it, or put it into bash_completion.d\n_spc() {\n"
       "  local word=${COMP_WORDS[COMP_CWORD]} words\n  case ${COMP_WORDS[1]} in");
  for (int i = 0; i < drv_command_count; i++) {
    printf("  %s) words=\"", drv_command_rows[i].name);
    for (int o = 0; o < drv_option_count; o++)
      if (strchr(drv_option_rows[o].commands, drv_command_rows[i].letter))
        printf("%s%s ", drv_option_rows[o].name, drv_option_rows[o].kind == DRV_FLAG ? "" : "=");
    puts("\" ;;");
  }
  printf("  *) words=\"");
  for (int i = 0; i < drv_command_count; i++) printf("%s ", drv_command_rows[i].name);
  puts("--version\" ;;\n  esac\n  [ \"$COMP_CWORD\" = 1 ] && words=\"${words} \"\n"
       "  COMPREPLY=($(compgen -W \"$words\" -- \"$word\") $(compgen -f -- \"$word\"))\n}\n"
       "complete -o nospace -F _spc spc");
}

static void zsh(void) {
  puts("#compdef spc\n_spc() {\n  local -a commands\n  commands=(");
  for (int i = 0; i < drv_command_count; i++)
    printf("    '%s:%s'\n", drv_command_rows[i].name, drv_command_rows[i].meaning);
  puts("  )\n  if (( CURRENT == 2 )); then _describe command commands; return; fi\n  case "
       "${words[2]} in");
  for (int i = 0; i < drv_command_count; i++) {
    printf("  %s) _arguments '*:file:_files'", drv_command_rows[i].name);
    for (int o = 0; o < drv_option_count; o++)
      if (strchr(drv_option_rows[o].commands, drv_command_rows[i].letter))
        printf(" '%s%s[%s]'", drv_option_rows[o].name,
               drv_option_rows[o].kind == DRV_FLAG ? "" : "=", drv_option_rows[o].name);
    puts(" ;;");
  }
  puts("  esac\n}\n_spc \"$@\"");
}

static void fish(void) {
  for (int i = 0; i < drv_command_count; i++) {
    const drv_command_row *row = &drv_command_rows[i];
    printf("complete -c spc -n __fish_use_subcommand -a %s -d '%s'\n", row->name, row->name);
    for (int o = 0; o < drv_option_count; o++) {
      const char *name = drv_option_rows[o].name;
      if (!strchr(drv_option_rows[o].commands, row->letter)) continue;
      bool is_long = name[1] == '-';
      printf("complete -c spc -n '__fish_seen_subcommand_from %s' %s %s%s\n", row->name,
             is_long ? "-l" : "-s", name + (is_long ? 2 : 1),
             drv_option_rows[o].kind == DRV_FLAG ? "" : " -r");
    }
  }
}

int drv_completions(drv_session *s) {
  const char *shell = s->arguments.items.count == 1 ? s->arguments.items.at[0] : "";
  if (!strcmp(shell, "bash"))
    bash();
  else if (!strcmp(shell, "zsh"))
    zsh();
  else if (!strcmp(shell, "fish"))
    fish();
  else
    return drv_usage_error(s, "completions wants bash, zsh or fish");
  return 0;
}
