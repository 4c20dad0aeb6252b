"""A whole fit of files: each table becomes a silo, and the model becomes a folder.

`whole_fit` does it all. `inference` computes standard errors, `influence` fits without each silo, `model_folder` writes
and reads the folder, and `predicting` applies the model. How tables are read and matched is in `dualfl.tables`.
"""
