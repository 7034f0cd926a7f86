// Package bistro reads the configuration files of Bistro: an object with the key bistro_settings and
// a key "bistro_job->NAME" for each job (Bistro, concepts and configuration).
//
// A File is the file with all defaults and inheritance applied. Its JSON is the export form of
// Bistro: effective values; reading it again gives the same File. An error in the settings refuses
// the file, with a tree of all errors. An error in a job makes that job invalid, and is kept in the
// job. Jobs converts a File to the jobs and nodes of package batch.
//
// Nothing here reads a file or a clock.
package bistro
