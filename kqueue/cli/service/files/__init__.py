"""The files of the service for systemd, with `string.Template`'s place for the executable: the
unit, its user, its folder of settings, and the settings themselves.
"""
