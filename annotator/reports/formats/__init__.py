"""The formats of tables, one file each; :data:`annotator.reports.table.FORMATS` names them."""
