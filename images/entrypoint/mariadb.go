package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

const (
	mariadbData   = "/var/lib/mysql"
	mariadbTables = "/usr/share/mariadb"
)

func planMariadb(args []string, _ surroundings) (start, error) {
	// slurmdbd refuses to start with MariaDB's own short lock wait, and needs reads that see what others have committed.
	daemon := []string{
		"mariadbd", "--no-defaults", "--datadir=" + mariadbData, "--socket=/run/mysqld/mysqld.sock", "--innodb-lock-wait-timeout=900",
		"--innodb-snapshot-isolation=OFF", "--skip-log-bin", "--skip-name-resolve",
	}
	return start{
		folders:   []folder{{"/run/mysqld", mysqlID}, {mariadbData, mysqlID}},
		processes: []process{{name: "mariadbd", args: append(daemon, args...), id: mysqlID}},
	}, nil
}

// bootstrapMariadb fills an empty data folder: the system tables, and the database and user that the environment names.
func bootstrapMariadb(getenv func(string) string) error {
	// The marker comes last, so a container that was killed in between starts over.
	done := filepath.Join(mariadbData, ".bootstrapped")
	if exists(done) {
		return nil
	}
	sql, err := bootstrapSQL(getenv, os.ReadFile)
	if err != nil {
		return err
	}
	if err := emptyData(); err != nil {
		return err
	}
	cmd := exec.Command("mariadbd", "--no-defaults", "--bootstrap", "--datadir="+mariadbData, "--skip-log-bin", "--user=mysql")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(sql), os.Stdout, os.Stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("make MariaDB's system tables in %s: %w", mariadbData, err)
	}
	return os.WriteFile(done, nil, 0o644)
}

// emptyData removes what a bootstrap that did not end has left, and refuses to touch a data folder that others made.
func emptyData() error {
	entries, err := os.ReadDir(mariadbData)
	if err != nil {
		return err
	}
	started := filepath.Join(mariadbData, ".bootstrapping")
	if !exists(started) {
		for _, e := range entries {
			if e.Name() != "lost+found" {
				return fmt.Errorf("%s holds %s, but was not made by this image: give it an empty folder", mariadbData, e.Name())
			}
		}
		return os.WriteFile(started, nil, 0o644)
	}
	for _, e := range entries {
		if e.Name() == "lost+found" || e.Name() == filepath.Base(started) {
			continue
		}
		if err := os.RemoveAll(filepath.Join(mariadbData, e.Name())); err != nil {
			return err
		}
	}
	return nil
}

// bootstrapSQL returns the statements, one a line, as `mariadbd --bootstrap` wants them.
func bootstrapSQL(getenv func(string) string, readFile func(string) ([]byte, error)) ([]byte, error) {
	database, user := getenv("MARIADB_DATABASE"), getenv("MARIADB_USER")
	password, err := secret("MARIADB_PASSWORD", getenv, readFile)
	if err != nil {
		return nil, err
	}
	if user != "" && (password == "" || database == "") {
		return nil, errors.New("MARIADB_USER needs MARIADB_DATABASE and MARIADB_PASSWORD or MARIADB_PASSWORD_FILE")
	}
	// Nobody but the daemon's own user, through the socket, may do everything; there is no anonymous account.
	sql := bytes.NewBufferString("create database mysql;\nuse mysql;\nset @auth_root_socket='mysql';\nset @skip_auth_anonymous=1;\n")
	for _, name := range []string{"mariadb_system_tables.sql", "mariadb_performance_tables.sql", "mariadb_system_tables_data.sql"} {
		text, err := readFile(filepath.Join(mariadbTables, name))
		if err != nil {
			return nil, err
		}
		sql.Write(text)
		sql.WriteByte('\n')
	}
	sql.WriteString("flush privileges;\n")
	if database != "" {
		fmt.Fprintf(sql, "create database %s;\n", quoteName(database))
	}
	if user != "" {
		fmt.Fprintf(sql, "create user %s@'%%' identified by %s;\n", quoteText(user), quoteText(password))
		fmt.Fprintf(sql, "grant all privileges on %s.* to %s@'%%';\n", quoteName(database), quoteText(user))
	}
	return sql.Bytes(), nil
}

// secret reads NAME, or the file that NAME_FILE names.
func secret(name string, getenv func(string) string, readFile func(string) ([]byte, error)) (string, error) {
	path := getenv(name + "_FILE")
	if path == "" {
		return getenv(name), nil
	}
	text, err := readFile(path)
	if err != nil {
		return "", fmt.Errorf("read %s_FILE: %w", name, err)
	}
	return strings.TrimRight(string(text), "\n"), nil
}

func quoteName(name string) string { return "`" + strings.ReplaceAll(name, "`", "``") + "`" }

func quoteText(text string) string {
	return "'" + strings.NewReplacer(`\`, `\\`, `'`, `\'`, "\n", `\n`, "\x00", `\0`).Replace(text) + "'"
}
